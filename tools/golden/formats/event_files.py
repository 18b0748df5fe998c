# SPDX-License-Identifier: MIT
# tests/golden/tensorboard/events.bin: what TensorBoard's own messages and record writer make of the events that
# tests/unit/tools/bedplate/record/test_event_file.c writes. Needs the package tensorboard (2.21) from PyPI:
#   python3 -m venv V && V/bin/pip install tensorboard && V/bin/python tools/golden/formats/event_files.py
import struct, sys
from tensorboard.compat.proto import event_pb2, summary_pb2, tensor_pb2, tensor_shape_pb2
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c
from tensorboard.plugins.hparams import plugin_data_pb2

WALL = 1700000000.25
out = bytearray()


def put(event):
    data = event.SerializeToString(deterministic=True)
    head = struct.pack('<Q', len(data))
    out.extend(head + struct.pack('<I', masked_crc32c(head)) + data + struct.pack('<I', masked_crc32c(data)))


def summary(tag, plugin, content, tensor, data_class=0):
    value = summary_pb2.Summary.Value(tag=tag, tensor=tensor)
    value.metadata.plugin_data.plugin_name = plugin
    value.metadata.plugin_data.content = content
    value.metadata.data_class = data_class
    return summary_pb2.Summary(value=[value])


def shape(*sizes):
    return tensor_shape_pb2.TensorShapeProto(dim=[tensor_shape_pb2.TensorShapeProto.Dim(size=n) for n in sizes])


put(event_pb2.Event(wall_time=WALL, file_version='brain.Event:2'))
put(event_pb2.Event(wall_time=WALL, step=8, session_log=event_pb2.SessionLog(status=event_pb2.SessionLog.START)))
for step, tag, number in ((8, 'train/loss', 3.25), (9, 'train/loss', float('nan')), (70000000000, 'eval/loss', 1e-9)):
    value = summary_pb2.Summary.Value(tag=tag, simple_value=number)
    put(event_pb2.Event(wall_time=WALL, step=step, summary=summary_pb2.Summary(value=[value])))
text = 'a **plan**\n' * 40
tensor = tensor_pb2.TensorProto(dtype=7, tensor_shape=shape(1), string_val=[text.encode()])
put(event_pb2.Event(wall_time=WALL, step=8, summary=summary('plan', 'text', b'', tensor, 2)))
empty = tensor_pb2.TensorProto(dtype=1, tensor_shape=shape(0))
start = plugin_data_pb2.HParamsPluginData(session_start_info=plugin_data_pb2.SessionStartInfo(start_time_secs=WALL))
hparams = start.session_start_info.hparams
hparams['bf16'].bool_value = True
hparams['learning-rate'].number_value = 5e-05
hparams['optim'].string_value = 'adamw'
put(event_pb2.Event(wall_time=WALL, summary=summary('_hparams_/session_start_info', 'hparams',
                                                    start.SerializeToString(deterministic=True), empty)))
end = plugin_data_pb2.HParamsPluginData(session_end_info=plugin_data_pb2.SessionEndInfo(status=1, end_time_secs=WALL))
put(event_pb2.Event(wall_time=WALL, step=12, summary=summary('_hparams_/session_end_info', 'hparams',
                                                             end.SerializeToString(deterministic=True), empty)))
open(sys.argv[1] if len(sys.argv) > 1 else 'tests/golden/tensorboard/events.bin', 'wb').write(out)
