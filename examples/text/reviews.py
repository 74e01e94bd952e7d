"""Writes reviews.csv: 600 short reviews of products by 40 people, each with a date, from a seed, and new.csv: two without a
verdict. Nothing but Python is needed."""
import csv
import datetime
import random

GOOD = ["love", "great", "reliable", "charming", "perfect", "happy"]
BAD = ["broken", "awful", "slow", "ugly", "useless", "sad"]
THINGS = ["kettle", "lamp", "bicycle", "radio", "chair", "clock", "café table", "Türklinke"]
PATTERNS = ["This {thing} is {word}.", "I am not {other}: my {thing} is {word}!", "{word}, {word2} {thing}",
            "The {thing} arrived today, and it is {word} and {word2}.", "Really {word}. Would I buy this {thing} again?"]


def sentence(good):
    words, others = (GOOD, BAD) if good else (BAD, GOOD)
    word, word2 = random.sample(words, 2)
    return random.choice(PATTERNS).format(thing=random.choice(THINGS), word=word, word2=word2, other=random.choice(others))


random.seed(11)
with open("reviews.csv", "w", encoding="utf-8", newline="") as file:
    out = csv.writer(file)
    out.writerow(["author", "written", "review", "verdict"])
    for i in range(600):
        good = random.random() < 0.5
        day = datetime.date(2023, 1, 1) + datetime.timedelta(days=random.randrange(700))
        out.writerow([f"author{random.randrange(40):02}", day.strftime("%d/%m/%Y"), sentence(good), "good" if good else "bad"])
with open("new.csv", "w", encoding="utf-8", newline="") as file:
    file.write("author,written,review\nsomebody,31/12/2024,\"A perfect, charming toaster!\"\nsomebody,01/01/2025,useless and ugly lamp\n")
