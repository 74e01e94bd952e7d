"""Writes low.csv, the handwritten digits 0 to 4, and high.csv, 500 of the digits 5 to 9 as classes 0 to 4. Nothing but Python is needed."""
import gzip

with gzip.open("../data/digits.csv.gz", "rt", encoding="utf-8") as file:
    rows = [line.strip().split(",") for line in file]
with open("low.csv", "w", encoding="utf-8") as low:
    low.writelines(",".join(row) + "\n" for row in rows if int(row[-1]) < 5)
with open("high.csv", "w", encoding="utf-8") as high:
    high.writelines(",".join([*row[:-1], str(int(row[-1]) - 5)]) + "\n" for row in [row for row in rows if int(row[-1]) >= 5][:500])
