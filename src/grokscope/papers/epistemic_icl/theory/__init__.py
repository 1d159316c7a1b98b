"""The paper's linear model: Bayesian regression whose posterior is approached by a flow.

`flow` has the exact solution for one data set, `spectrum` its limit for many random ones
(Marchenko-Pastur), and `success` what accuracy and uncertainty make of the remaining risk.
"""
