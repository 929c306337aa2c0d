"""Decodes a trace with Perfetto's own schema and refuses what the schema does not know.

usage: decode.py FILE

Needs the Python package `perfetto`, whose generated classes are the published schema.
"""

import collections
import sys

from google.protobuf import unknown_fields
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema


def walk(message):
    """`message` and every message inside it."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        inner = value if hasattr(value, "__len__") and not hasattr(value, "ListFields") else [value]
        for part in inner:
            yield from walk(part)


def main(path):
    trace = schema.Trace()
    with open(path, "rb") as file:
        data = file.read()
    trace.ParseFromString(data)
    unknown = sum(len(unknown_fields.UnknownFieldSet(part)) for part in walk(trace))
    tracks, begun, ended = {}, set(), set()
    depth, kinds = collections.Counter(), collections.Counter()
    for packet in trace.packet:
        if packet.HasField("track_descriptor"):
            tracks[packet.track_descriptor.uuid] = packet.track_descriptor.name
        for event in packet.ftrace_events.event:
            kinds[event.WhichOneof("event")] += 1
        if packet.HasField("track_event"):
            event = packet.track_event
            kinds[schema.TrackEvent.Type.Name(event.type)] += 1
            assert event.track_uuid in tracks, "an event without a track"
            begun.update(event.flow_ids)
            ended.update(event.terminating_flow_ids)
            depth[event.track_uuid] += {1: 1, 2: -1}.get(event.type, 0)
            assert depth[event.track_uuid] in (0, 1), tracks[event.track_uuid]
    assert unknown == 0, f"{unknown} fields that the schema does not know"
    assert ended <= begun, "an arrow ends that did not begin"
    print(f"{len(data) / 1e6:.1f} MB, {len(trace.packet)} packets, {len(tracks)} tracks")
    print(f"{len(ended)} arrows; {dict(kinds)}; no unknown field")


if __name__ == "__main__":
    main(sys.argv[1])
