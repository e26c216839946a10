"""Certificates for tests, made anew each time."""

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


def certified(folder: Path, name: str = "server") -> tuple[Path, Path, Path]:
    """An authority's certificate, and a certificate that it gave, with its key."""
    authority, own = (rsa.generate_private_key(65537, 2048) for _ in range(2))
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "hyperfsad tests")])
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    names = [
        x509.UniformResourceIdentifier(f"urn:hyperfsad:{name}"),
        x509.DNSName("localhost"),
        x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
    ]
    usage = x509.KeyUsage(True, True, True, True, False, False, False, False, False)
    purposes = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    ca = _begun(issuer, issuer, authority)
    ca = ca.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    one = _begun(subject, issuer, own)
    one = one.add_extension(x509.SubjectAlternativeName(names), critical=False)
    one = one.add_extension(usage, critical=False)
    one = one.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
    paths = folder / "ca.pem", folder / f"{name}.pem", folder / f"{name}.key"
    for path, made in zip(paths, (ca, one), strict=False):
        content = made.sign(authority, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        path.write_bytes(content)
    plain, kind = serialization.NoEncryption(), serialization.PrivateFormat.PKCS8
    paths[2].write_bytes(own.private_bytes(serialization.Encoding.PEM, kind, plain))
    paths[2].chmod(0o600)
    return paths


def _begun(
    subject: x509.Name, issuer: x509.Name, key: rsa.RSAPrivateKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.timezone.utc)
    day = datetime.timedelta(days=1)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer)
    builder = builder.public_key(key.public_key()).serial_number(x509.random_serial_number())
    return builder.not_valid_before(now - day).not_valid_after(now + day)
