"""Sentences about machines that are connected."""

from . import Sentences

CONNECT_SENTENCES: Sentences = {
    "webhook-address": "A webhook is an address such as https://example.org/parts; write non-ASCII"
    " characters as %XX.",
    "webhook-password": "A webhook's address must not hold a password; send it as a header, such"
    ' as {option[webhook_header]} "Authorization: …".',
    "webhook-header": 'A header of the webhook is written as "Name: value", in ASCII.',
    "webhook-own-header": "The header {name} of the webhook is set by hyperfsad.",
    "webhook-events": "The webhook can be called on {known}, not on {given}.",
    "webhook-no-threshold": "The detector has no threshold, so no image would be anomalous: set"
    " one with `hyperfsad calibrate`, or send all results ({option[webhook_on]} all).",
    "delivery-left": "Records that the next start sends to {name}: {number}.",
    "delivery-waits": "Nothing is sent to {name} now: {why}.",
    "delivery-recovered": "{address} ({name}) takes records again.",
    "delivery-retries": "{address} ({name}) did not take a record ({why}); hyperfsad tries again"
    " until it does.",
    "delivery-refused": "{address} ({name}) refused the record of {image} ({why}); it is not sent"
    " again but kept in {file}.",
    "outbox-state-unfit": "{path} does not fit {results}; earlier records are not sent, and numbers"
    " begin anew under another origin.",
    "outbox-state-unsaved": "How far records are sent was not noted ({why}).",
    "connect-table": "{path}: there is no table [{given}]; choose among {known}.",
    "connect-key": "{path}: [{table}] has no {key}; it takes {known}.",
    "connect-missing": "{path}: [{table}] needs {key}.",
    "connect-value": "{path}: {key} of [{table}] cannot be {given!r}.",
    "connect-empty": "{path} connects nothing; name at least one receiver.",
    "connect-pair": "{first} and {second} go together; give both.",
    "connect-seconds": "{key} must be more than 0 and at most 86400 seconds, not {given}.",
    "connect-package": "This needs one more package ({package}): pip install 'hyperfsad[{extra}]'.",
    "connect-twice": "{option[connect]} has a table [webhook]; leave out {option[webhook]}.",
    "connect-silent": "{address} cannot be reached: {why}.",
    "connect-login": "{address} refuses the user or the password.",
    "connect-tls": "The certificate of {address} is not trusted: {why}.",
    "connection-unknown": "There is no connection {name}.",
    "mqtt-topic": "An MQTT topic is a text such as plant/line4, without + and #, not {given!r}.",
    "modbus-open": "Modbus has no passwords: whoever reaches {address} can read verdicts and"
    " trigger. Keep it in a network of machines only.",
    "opcua-open": "On {address} other machines can reach the OPC UA server, so it needs"
    " certificate, private_key and users_file; without them, leave host out.",
    "opcua-users": "{file} needs rows `name: password`, with passwords of at least 8 characters.",
}
