"""onnxruntime's side of the benchmark of ONNX models; see models.py.

    models.py MODEL.onnx THREADS     one example, all of its optimisations
"""
import resource
import sys
import time

import numpy
import onnxruntime


def answer(step):
    """As tools/rounds.py asks."""
    print("ready", flush=True)
    for line in sys.stdin:
        if line.startswith("run "):
            steps = int(line[4:])
            begin = time.perf_counter()
            for _ in range(steps):
                step()
            print((time.perf_counter() - begin) * 1e3 / max(steps, 1), flush=True)
        else:
            print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, flush=True)


def main():
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(sys.argv[2])
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
    given = session.get_inputs()[0]
    x = numpy.random.default_rng(1).standard_normal([1] + given.shape[1:]).astype("float32")
    answer(lambda: session.run(None, {given.name: x}))


main()
