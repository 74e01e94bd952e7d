"""Writes weather.csv: 60 days of hourly temperatures and winds, from a seed. Nothing but Python is needed."""
import math
import random

random.seed(5)
noise = 0.0
with open("weather.csv", "w", encoding="utf-8") as file:
    file.write("hour,temperature,wind\n")
    for hour in range(60 * 24):
        noise = 0.9 * noise + random.gauss(0, 0.4)
        temperature = 12 + 6 * math.sin(2 * math.pi * (hour - 9) / 24) + 4 * math.sin(2 * math.pi * hour / (24 * 30)) + noise
        file.write(f"{hour},{temperature:.2f},{max(0, 4 - noise + random.gauss(0, 0.5)):.2f}\n")
