"""What of a map could be skipped: how concentrated rows are, which pattern a head has, what a pattern keeps.

Everything here reads weights row by row ([R, Nk] with what each row may see); nothing needs the model. Cells that a
row may not see are in no sum and in no count.
"""
