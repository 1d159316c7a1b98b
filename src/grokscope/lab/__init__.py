"""The live lab: start, watch, compare and explain runs in the browser, on this machine alone.

    guard      who may ask: token, cookie, Host, Origin, sizes, Content-Security-Policy
    server     what can be asked: a route per question
    catalogue  the list of runs: filter, arms
    watching   one run in numbers and words
    scrubbing  the kept weights of one run: attention, embedding, right and wrong answers
    autopsy    why a seed did not grok: its twin, where they part, forks that show the cause
    forms      every field of a spec as a form, and what is made of what was typed
    orders     work that is handed to a process of its own (`foreman`)
    verdicts   papers: claims, verdicts, and the runs behind them
    static     the page: plain ES modules, uPlot for curves, canvas for maps

The server reads the store and writes orders; it trains nothing, so killing it harms no run.
"""
