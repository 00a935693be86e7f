"""Network addresses in a text, told from the versions, times and PCI bus ids beside them."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["redact_addresses"]

# A character before or after that makes a number a part of something else. `\n` and the like appear as two
# characters where a text was printed with its quotes.
_BEGIN: Final = r"(?:(?<![A-Za-z0-9.])|(?<=\\n)|(?<=\\t)|(?<=\\r))"
_OCTET: Final = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_IPV4: Final = re.compile(rf"{_BEGIN}{_OCTET}(?:\.{_OCTET}){{3}}(?![A-Za-z0-9]|\.\d)")
_IPV6: Final = re.compile(
    r"(?<![\w.:])(?:[0-9A-Fa-f]{0,4}:){2,7}(?:[0-9A-Fa-f]{1,4})?(?:%\w+)?(?![\w:]|\.\d)"
)
_IPV6_WIDE: Final = tuple(
    ipaddress.ip_network(net) for net in ("2000::/3", "fc00::/7", "fe80::/10", "ff00::/8")
)
# 6 octets of Ethernet, 8 of an adapter's GUID, 20 of InfiniBand. With hyphens, digits alone are a time.
_MAC: Final = re.compile(
    r"(?<![\w:.-])(?:[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){5,19}"
    r"|(?=[0-9-]*[A-Fa-f])[0-9A-Fa-f]{2}(?:-[0-9A-Fa-f]{2}){5})(?![\w:-])"
)
_CLOUD_NAME: Final = re.compile(
    r"\bip(?:-\d{1,3}){4}(?:\.[\w.-]+)?\b"
    r"|(?<![\w.-])[\w-]{1,63}(?:\.[\w-]{1,63}){0,6}"
    r"\.(?:(?:ec2|compute)\.internal|compute\.amazonaws\.com|localdomain|cluster\.local)\b"
)

_PACKAGE: Final = (
    r"(?:nvidia[-_](?:cu|nccl|nv|npp|ml)[\w.-]*|cu(?:da|blas|dnn|fft|file|pti|rand|solver|sparse|tensor)[\w.-]*"
    r"|nccl|nvjitlink|nvshmem[\w-]*|nvtx|tensorrt[\w-]*|opencv[\w-]*|onnx[\w-]*|lib[a-z][\w.+-]*)"
)
# What stands before a number of four parts that is a version.
_VERSION_BEFORE: Final = re.compile(
    r"(?:[=<>~!]=\s*['\"]?"  # package==12.8.4.1
    r"|\.so\."  # libcudnn.so.9.10.2.21
    r"|(?:version|release|vbios|firmware|driver)s?\b['\"]?\s*[:=]?\s*['\"(]?v?"  # "version": "12.8.1.2"
    r"|_(?:version|ver)['\"]?\s*[:=]\s*['\"]?"  # NV_CUDNN_VERSION=9.10.2.21
    rf"|\b{_PACKAGE}['\"]?(?:\s+|\s*[:=,]\s*|\s*\(|[-_/])['\"]?v?"  # nvidia-cublas-cu12   12.8.4.1
    r")$",
    re.IGNORECASE,
)
_VERSION_AFTER: Final = re.compile(r"[-.+](?:cp3|py3|dist-info|tar\.|whl|deb|rpm|post\d|cu1)", re.IGNORECASE)
_ADDRESS_BEFORE: Final = re.compile(r"(?:://|@|\binet6?\s+|\baddr(?:ess)?[:=]?\s*)$", re.IGNORECASE)
_ADDRESS_AFTER: Final = re.compile(r":\d{2,5}\b")
_CONTEXT: Final = 80


def redact_addresses(text: str, *, own: Collection[str] = (), versions: bool = False) -> str:
    """Return the text with IPv4, IPv6 and hardware addresses replaced; loopback addresses stay.

    Four numbers with dots between them are an address unless what stands around them says version
    (`nvidia-cublas-cu12==12.8.4.1`, `libcudnn.so.9.10.2.21`, `driver version 12.8.1.2`). In doubt they go.

    Args:
        text: Any text.
        own: This machine's addresses, replaced whatever stands around them.
        versions: The text is a version number: four numbers stay unless they are one of `own`.
    """

    def ipv4(match: re.Match[str]) -> str:
        address = match[0]
        if address in own:
            return "<ip>"
        if address.startswith("127.") or address in {"0.0.0.0", "255.255.255.255"}:  # noqa: S104 (no binding)
            return address
        return address if versions or _is_version(match) else "<ip>"

    text = _MAC.sub("<mac>", text)
    text = _CLOUD_NAME.sub("<hostname>", text)
    text = _IPV4.sub(ipv4, text)
    return _IPV6.sub(lambda match: "<ip>" if _is_ipv6(match[0], own) else match[0], text)


def _is_version(match: re.Match[str]) -> bool:
    before = match.string[max(0, match.start() - _CONTEXT) : match.start()]
    after = match.string[match.end() : match.end() + _CONTEXT]
    if _ADDRESS_BEFORE.search(before) or _ADDRESS_AFTER.match(after):
        return False
    return _VERSION_BEFORE.search(before) is not None or _VERSION_AFTER.match(after) is not None


def _is_ipv6(text: str, own: Collection[str]) -> bool:
    """Tell an address from a time, a slice (`[::2]`) or a C++ name (`at::`)."""
    try:
        address = ipaddress.IPv6Address(text.partition("%")[0])
    except ValueError:
        return False
    return str(address) in own or any(address in wide for wide in _IPV6_WIDE)
