"""Sentences about `serve`."""

from collections.abc import Sequence

from . import Options, Sentences, of_limit


def _request_invalid(option: Options, field: str | None, reason: str) -> str:
    return f"{field or 'The request'}: {reason}."


def _disk_nearly_full(option: Options, free: int, reserve: int) -> str:
    return (
        f"The station's disk is nearly full ({free / 1e6:.0f} MB are left, and"
        f" {reserve / 1e6:.0f} MB stay free): nothing more is accepted until there is space;"
        f" delete files or lower {option['keep']}."
    )


def _image_pixels(option: Options, name: str, width: int, height: int, limit: int) -> str:
    return f"{name} has {width}×{height} pixels; at most {limit / 1e6:g} million are accepted."


def _upload_bytes(option: Options, name: str, limit: int) -> str:
    return f"{name} is too large: at most {limit / 1e6:g} MB are accepted."


def _images_unusable(option: Options, reason: str) -> str:
    return reason


def _trend_too_long(option: Options, step: str, limit: int) -> str:
    return f"A trend by {step} has at most {limit} {step}s{'; ask for days' * (step == 'hour')}."


def _teaching_unconfirmed(
    option: Options,
    names: Sequence[str],
    level: float | None,
    foreign: bool,
    threshold: float | None,
    new_threshold: float | None,
    inspections: int,
    changed: int,
    passing: int,
) -> str:
    reach = "" if level is None else f"reaches {of_limit(level)}"
    looks = "looks like another product" if foreign else ""
    old, new = ("none" if one is None else f"{one:.4g}" for one in (threshold, new_threshold))
    return (
        f"{', '.join(names)} {' and '.join(filter(None, (reach, looks)))}. Learning it leads from"
        f" threshold {old} to {new}; of the latest {inspections} verdicts {changed} would change,"
        f" {passing} of them from anomalous to good. Send `confirm` to teach it."
    )


SERVE_SENTENCES: Sentences = {
    # requests
    "address-unknown": "There is nothing at this address.",
    "method-unknown": "This address does not support this method.",
    "request-refused": "The request was refused: {reason}.",
    "request-invalid": _request_invalid,
    "request-failed": "The station could not do this; its log says why under {request}.",
    "request-too-large": "The request is larger than the {limit:,} bytes that are accepted.",
    "not-signed-in": "Sign in first, or send the header `Authorization: Bearer TOKEN`.",
    "authorization-kind": "The header must have the form `Authorization: Bearer TOKEN`.",
    "token-unknown": "The token is not known here.",
    "tokens-wrong": "Too many wrong tokens; try again in {retry_after} s.",
    "sign-in-incomplete": "Send either a token, or a name and a PIN.",
    "pin-unknown": "The name and the PIN do not fit together.",
    "user-locked": "Too many wrong PINs for this name; try again in {retry_after} s, or have an"
    " engineer set a new PIN.",
    "user-unknown": "There is no such user.",
    "user-name-taken": "There is already a user {name}.",
    "user-name-invalid": "A user's name must have 1 to {longest} printable characters.",
    "pin-invalid": "A PIN of this role must have {shortest} to {longest} printable characters.",
    "pin-simple": "A PIN needs at least two different characters.",
    "pins-differ": "The two PINs differ; try again.",
    "pin-needed": "An engineer's PIN is longer; set a new one together with the role.",
    "engineer-last": "One of the users has to be an engineer (role admin): add one first, or remove"
    " all others.",
    "admin-required": "Your role may inspect and view; this needs the role admin.",
    "teaching-needs-admin": "Teaching a product needs the role admin; set `learn` to false.",
    "forgetting-needs-admin": "The product has learnt this image; only the role admin can undo it.",
    "host-foreign": "This station answers on this machine only, as localhost.",
    "origin-foreign": "Another site's page may not change anything here.",
    "header-missing": "With a cookie, a change needs the header {header}.",
    "cursor-unknown": "The cursor does not come from this station; begin without one.",
    "time-range": "The time {given} is out of range.",
    # the station at work
    "station-listening": "The station listens on {address} (Ctrl-C ends it).",
    "station-stopping": "The station is stopping; try again when it is back.",
    "queue-full": "{taken} of {limit} places in the queue are taken; try again in {retry_after} s.",
    "live-full": "{limit} readers already follow the verdicts; try again later.",
    "memory-busy": "Too many large pictures are being decoded; try again in {retry_after} s.",
    "learning-elsewhere": "Another station is learning for this product; try again in {retry_after}"
    " s.",
    "encoder-loading": "The encoder is being loaded.",
    "station-not-ready": "The station cannot inspect now; its log says why, and the role admin is"
    " told.",
    "database-silent": "The database does not answer.",
    "database-replaced": "The station's database was moved or deleted while it ran, so nothing more"
    " is kept; put it back, or restart the station.",
    "database-away": "The station's database does not answer, so nothing was done; try again.",
    "disk-full": "The station's disk is full, so nothing of this request was kept; free some"
    " space.",
    "disk-nearly-full": _disk_nearly_full,
    "picture-unjudged": "The picture could not be inspected; the station's log says why.",
    "watch-failed": "The folder cannot be watched now; see the log.",
    # cameras
    "camera-not-set": "The product has no camera.",
    "camera-picture-missing": "There is no such picture of the camera.",
    "camera-away": "The camera gives no pictures now; try again in {retry_after} s.",
    "camera-behind": "Too many shots already wait; try again in {retry_after} s.",
    "trigger-not-software": "The trigger of this camera is {trigger}; shots can be asked for with"
    " the trigger software.",
    "shot-failed": "The last shot could not be judged; see the log.",
    # uploads
    "form-required": "Send a form of the type multipart/form-data.",
    "form-damaged": "The form is damaged or incomplete; send it again.",
    "field-unknown": "The form has no field {field}.",
    "field-too-long": "The field {field} is too long.",
    "field-not-a-number": "The field {field} must be a number, not {given}.",
    "file-field": "Files go into the field {field}.",
    "files-too-many": "At most {limit} files are accepted at once.",
    "upload-missing": "Send at least one file in the field {field}.",
    "upload-bytes": _upload_bytes,
    "upload-slow": "The upload is too slow; try again on a faster connection.",
    "upload-stopped": "The request stopped before it was complete.",
    "image-pixels": _image_pixels,
    "images-unusable": _images_unusable,
    # products and inspections
    "product-id-unknown": "There is no product {product}.",
    "product-not-made": "There is no product {product} yet; create it.",
    "product-deleted": "The product {product} was deleted, so its verdict can no longer be"
    " explained.",
    "product-changed": "Somebody else changed {product} in the meantime; try again.",
    "product-name-taken": "There is already a product {product}; choose another name.",
    "product-name-invalid": "A product's name must have 1 to 100 printable characters.",
    "trace-field-name": "{name!r} cannot be a field's name: 1 to 30 printable characters without"
    " {{, }} and *.",
    "trace-field-taken": "The history has {name} already; choose another name for the field.",
    "trace-fields-many": "A product has at most {most} fields, each with a name of its own.",
    "trace-pattern-damaged": "The pattern {pattern!r} has a brace too much; write it such as"
    " {{serial}}_{{lot}}_*.",
    "trace-pattern-field": "The pattern names {name!r}, which is no field of the product, or stands"
    " there twice.",
    "trace-pattern-joined": "In the pattern {pattern!r} two places follow each other without text"
    " between them, so nobody knows where one ends.",
    "trace-values-damaged": "`fields` must be a JSON object of texts.",
    "trace-field-unknown": "{product} has no field {name}.",
    "trace-value-long": "The value of {name} has more than {longest} characters.",
    "key-with-several": "An Idempotency-Key is for one image; send them one by one.",
    "key-known": "Another image was inspected with this Idempotency-Key; use a new one.",
    "images-known": "The product has already learnt all of these pictures.",
    "teaching-unconfirmed": _teaching_unconfirmed,
    "adapting-too-early": "{parts} of the {needed} unlabelled parts that are needed are there.",
    "adapting-doubtful": "{bad} of {count} unlabelled parts look bad. Beyond a fifth nobody can"
    " tell what is usual: look at the proposal and decide.",
    "good-part-unknown": "The product has not learnt this picture.",
    "version-unknown": "Version {revision} of the product is not kept; choose another.",
    "threshold-or-images": "Give either a threshold, or good parts and a false_alarm_rate.",
    "inspection-unknown": "There is no inspection {inspection}.",
    "original-gone": "The original of this picture is no longer kept.",
    "settings-need-pictures": "The product has to learn its good parts again, and the station has"
    " no picture of {names}; remove them, or give them again.",
    "label-known": "This inspection is already labelled {label}; undo that first.",
    "label-missing": "This inspection has no label.",
    "fine-with-defect": "A part that is fine cannot have a defect.",
    "labels-contradict": "{image} is labelled fine and bad; undo one of the two.",
    "labels-missing": "No inspection of {product} has a label yet; label some.",
    "shift-starts": "Give 1 to {most} times at which shifts begin, such as 06:00.",
    "shift-zone": "{given!r} is no time zone that this machine knows; write it such as"
    " Europe/Berlin.",
    "trend-reversed": "`since` must come before `until`; swap them.",
    "trend-too-long": _trend_too_long,
    "detector-replaced": "The detector file was replaced just now; try again.",
    "detector-encoder-missing": "The detector needs the encoder {encoder}, which this station does"
    " not have; fetch it with `hyperfsad encoders fetch {encoder}`.",
    "detector-encoder-folder": "The detector was made with an encoder from a folder of another"
    " machine, and this station works with {encoder}; fit it with {encoder}.",
    # starting a station
    "tls-incomplete": "{option[tls_cert]} and {option[tls_key]} go together; give both.",
    "tls-unusable": "TLS cannot be used: {reason}.",
    "port-range": "The port must be 0 to 65535, not {given}.",
    "port-unusable": "Port {port} on {host} cannot be opened: {reason}; choose another one with"
    " {option[port]} and {option[host]}.",
    "max-queue-range": "{option[max_queue]} must be 1 to 10000, not {given}.",
    "token-required": "On {host} other machines can reach the station, so it needs"
    " {option[token]}: a file with the rows `inspect: TOKEN` and `admin: TOKEN`; without it, the"
    " station serves this machine only.",
    "token-file-rows": "The token file {file} needs one row `inspect: TOKEN` and one `admin:"
    " TOKEN`.",
    "token-too-short": "The token of {role} in {file} needs at least {shortest} plain characters;"
    ' make one with `python -c "import secrets; print(secrets.token_urlsafe())"`.',
    "token-admin-missing": "The token file {file} has no row `admin: TOKEN`.",
    "token-repeated": "The token file {file} gives two roles the same token.",
    "watch-invalid": "{option[watch]} must have the form bolt=/camera/line1, not {given!r}.",
    "watch-inside-store": "The folder {folder}, watched for {product}, and the store {store} lie"
    " inside each other; choose another one.",
    "watch-not-a-folder": "{folder} is a file; name the folder to watch.",
    "watch-repeated": "{option[watch]} names a product and a folder twice; leave one out.",
    "keep-invalid": "{option[keep]} must have the form 90d, 20GB or 90d,20GB, not {given!r}.",
    "store-missing": "{folder} holds no station's database; name the folder of {option[store]}.",
    "audit-broken": "The audit log was changed by hand: row {row} is missing, or does not"
    " follow from the row before it.",
    "store-damaged": "{file} is missing, so the store is damaged.",
    "store-too-new": "The store was written by a newer hyperfsad ({reason}); upgrade.",
    "store-database-new": "{folder} holds a store, and its database is missing or empty; put the"
    " database back, name it with {option[database]}, or insist with {option[new_store]}.",
    "store-folder-differs": "{folder} is not the folder of this database: {missing} of its"
    " {products} products have no detector file there; name the other folder with"
    " {option[store]}, or insist with {option[new_store]}.",
    "store-open": "Other accounts of this machine can read {folder}; close it with chmod 700.",
    "database-unusable": "The database cannot be used: {reason}.",
    "database-kind": "{option[database]} is for PostgreSQL only, not {kind}; give an address such"
    " as postgresql://user@host/name, or leave it out for the store's own SQLite file.",
    "database-driver-missing": "{option[database]} needs a driver: pip install"
    " 'hyperfsad[postgres]' ({reason}).",
    "database-address-invalid": "{option[database]} cannot be used: {reason}; give an address such"
    " as postgresql://user@host/name.",
    # the client
    "station-address-invalid": "A station's address must have the form http://127.0.0.1:8000, not"
    " {url}.",
    "station-silent": "The station does not answer: {reason}.",
}
