"""Writes customers.csv: 1 200 customers, and whether each left. Some cells are empty, as in real files. Nothing but Python is needed."""
import csv
import math
import random

random.seed(3)
PLANS = {"basic": 0.6, "plus": -0.2, "family": -0.8}
with open("customers.csv", "w", newline="", encoding="utf-8") as file:
    out = csv.writer(file)
    out.writerow(("customer", "plan", "region", "months", "price", "calls", "churn"))
    for number in range(1200):
        plan, region = random.choice(list(PLANS)), random.choice(("north", "south", "west"))
        months, price, calls = random.randint(1, 72), round(random.uniform(8, 60), 2), random.randint(0, 9)
        score = PLANS[plan] + 0.35 * calls - 0.06 * months + 0.03 * price + random.gauss(0, 0.4)
        left = "yes" if random.random() < 1 / (1 + math.exp(-2 * score)) else "no"
        out.writerow((f"C{number:04}", plan, region, months, "" if random.random() < 0.05 else price, calls, left))
