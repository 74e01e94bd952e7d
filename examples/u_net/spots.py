"""Writes spots.npy, 200 pictures of 24 x 24 with bright spots on a noisy ground, and masks.npy: 1 where a spot is. Needs NumPy."""
import numpy

random = numpy.random.default_rng(8)
y, x = numpy.mgrid[:24, :24]
pictures, masks = [], []
for _ in range(200):
    mask = numpy.zeros((24, 24), bool)
    for _ in range(random.integers(1, 4)):
        radius, left, top = random.uniform(2, 5), random.uniform(3, 21), random.uniform(3, 21)
        mask |= (x - left) ** 2 + (y - top) ** 2 < radius ** 2
    ground = 0.3 + 0.2 * numpy.sin(x / random.uniform(2, 6) + random.uniform(0, 6))
    pictures.append(ground + mask * random.uniform(0.25, 0.6) + random.normal(0, 0.12, (24, 24)))
    masks.append(mask)
numpy.save("spots.npy", numpy.array(pictures, "float32")[..., None])
numpy.save("masks.npy", numpy.array(masks, "float32")[..., None])
