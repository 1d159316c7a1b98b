def write(paper, tables, docs): return []
