"""Writes houses.csv: 1 000 houses and what each was sold for. Nothing but Python is needed."""
import random

random.seed(4)
with open("houses.csv", "w", encoding="utf-8") as file:
    file.write("rooms,area,age,distance,price\n")
    for _ in range(1000):
        rooms, age, distance = random.randint(1, 8), random.randint(0, 90), random.uniform(0.5, 30)
        area = 18 * rooms + random.uniform(10, 60)
        price = 1900 * area * (1 - age / 300) * (0.6 + 0.8 / (1 + distance / 8)) + random.gauss(0, 12000)
        file.write(f"{rooms},{area:.0f},{age},{distance:.1f},{price:.0f}\n")
