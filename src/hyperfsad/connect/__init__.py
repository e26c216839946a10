"""A line's machines: what they hear of each part, and what they may act upon.

>>> from hyperfsad.connect import ConnectSettings, Webhook
>>> from hyperfsad.watch import watch
>>> connect = ConnectSettings((Webhook("https://line4.example/parts", ["all"]),))
>>> for result in watch(detector, "camera/", "out/", connect=connect):
...     print(result.image, result.score)
"""

from typing import TYPE_CHECKING

from ..lazy import loader

if TYPE_CHECKING:
    from .config import ConnectSettings, LineSettings, read_connections
    from .sinks.modbus import Modbus
    from .sinks.mqtt import Mqtt
    from .sinks.opcua import OpcUa
    from .sinks.webhook import Webhook

__all__ = [
    "ConnectSettings",
    "LineSettings",
    "Modbus",
    "Mqtt",
    "OpcUa",
    "Webhook",
    "read_connections",
]

_HOMES = {"Modbus": "modbus", "Mqtt": "mqtt", "OpcUa": "opcua", "Webhook": "webhook"}
__getattr__ = loader(
    __name__,
    {name: f"sinks.{home}" for name, home in _HOMES.items()}
    | dict.fromkeys(("ConnectSettings", "LineSettings", "read_connections"), "config"),
)
