"""One place for every chart: of runs, papers, theory and benchmarks. Knows nothing of stores."""
