#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Rows of autoencoder.py: ONNX Runtime training (onnxruntime-training 1.19.2) trains MLPerf Tiny's anomaly autoencoder.

    autoencoder_ort.py make DIR sgd|adamw            the four artifacts, from a graph of dense layers and ReLU
    autoencoder_ort.py train DIR BATCH STEPS         bytes and time of a step, as one JSON object

Making them imports torch; training has an empty module in its place, since onnxruntime.training names it and does not
need it. The bytes of a step are how far the resident size grew beyond that after the imports; `process` is all of it.
"""
import importlib.machinery
import json
import resource
import sys
import time
import types

WIDTHS = [640, 128, 128, 128, 128, 8, 128, 128, 128, 128, 640]


def make(directory, optimizer):
    import numpy
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    from onnxruntime.training import artifacts

    random = numpy.random.default_rng(1)
    nodes, weights, x = [], [], "input"
    for i in range(len(WIDTHS) - 1):
        shape = (WIDTHS[i], WIDTHS[i + 1])
        values = random.normal(0.0, (2.0 / WIDTHS[i]) ** 0.5, shape).astype(numpy.float32)
        weights.append(numpy_helper.from_array(values, f"w{i}"))
        weights.append(numpy_helper.from_array(numpy.zeros(shape[1], numpy.float32), f"b{i}"))
        last = i + 2 == len(WIDTHS)
        y = "output" if last else f"dense{i}"
        nodes.append(helper.make_node("Gemm", [x, f"w{i}", f"b{i}"], [y]))
        if not last:
            nodes.append(helper.make_node("Relu", [y], [f"relu{i}"]))
        x = f"relu{i}"
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 640]) for name in ("input", "output")]
    graph = helper.make_graph(nodes, "autoencoder", value[:1], value[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)])
    model.ir_version = 8
    artifacts.generate_artifacts(model, requires_grad=[w.name for w in weights], frozen_params=[],
                                 loss=artifacts.LossType.MSELoss,
                                 optimizer=artifacts.OptimType.SGD if optimizer == "sgd" else artifacts.OptimType.AdamW,
                                 artifact_directory=directory)


class Nothing(types.ModuleType):
    """Has every attribute, can be called and derived from, and all of that is nothing."""

    def __init__(self, name="", *_):
        super().__init__(name)

    def __call__(self, *_, **__):
        return self

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing(name)


def resident():
    for line in open("/proc/self/status"):
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024
    return 0


def train(directory, batch, steps):
    nothing = sys.modules["torch"] = Nothing("torch")
    nothing.__spec__ = importlib.machinery.ModuleSpec("torch", None)
    import numpy
    import onnxruntime
    from onnxruntime.training.api import CheckpointState, Module, Optimizer

    numbers = (((numpy.arange(batch * 640) * 7919) % 257 - 128) / 64).astype(numpy.float32).reshape(batch, 640)
    begun = resident()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    state = CheckpointState.load_checkpoint(f"{directory}/checkpoint")
    module = Module(f"{directory}/training_model.onnx", state, f"{directory}/eval_model.onnx", session_options=options)
    optimizer = Optimizer(f"{directory}/optimizer_model.onnx", module)
    module.train()

    def step():
        loss = module(numbers, numbers)
        optimizer.step()
        module.lazy_reset_grad()
        return float(loss)

    for _ in range(3):
        step()
    began = time.process_time()
    for _ in range(steps):
        step()
    spent = (time.process_time() - began) / steps * 1e3
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"bytes": resident() - begun, "ms": round(spent, 4), "process": most}))


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(sys.argv[2], sys.argv[3])
    else:
        train(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
