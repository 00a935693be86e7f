"""Reading XML that a tool on an unknown machine printed: no entities, no external files, no deep nesting."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["XmlError", "parse_xml"]

_MAX_CHARACTERS = 16 << 20
_MAX_DEPTH = 64


class XmlError(ValueError):
    """The text is no XML that is read here."""


def parse_xml(text: str) -> Element:
    """Return the root element.

    A DOCTYPE that names an external definition is normal (nvidia-smi's has one) and is not fetched.
    Declarations of entities are refused: one can stand for gigabytes of text or for a local file.

    Raises:
        XmlError: It is broken, too long, nested too deeply, or declares something.
    """
    if len(text) > _MAX_CHARACTERS:
        msg = f"longer than {_MAX_CHARACTERS} characters"
        raise XmlError(msg)
    builder = TreeBuilder()
    depth = 0

    def start(tag: str, attributes: Mapping[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > _MAX_DEPTH:
            msg = f"nested more than {_MAX_DEPTH} deep"
            raise XmlError(msg)
        builder.start(tag, dict(attributes))

    def end(tag: str) -> None:
        nonlocal depth
        depth -= 1
        builder.end(tag)

    def refuse(*_: object) -> NoReturn:
        msg = "it declares entities, which are not read"
        raise XmlError(msg)

    parser = expat.ParserCreate()
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = builder.data
    parser.EntityDeclHandler = refuse
    parser.UnparsedEntityDeclHandler = refuse
    parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
    try:
        parser.Parse(text.encode("utf-8", "surrogatepass"), True)
        return builder.close()
    except (expat.ExpatError, AssertionError, UnicodeError) as error:
        raise XmlError(str(error)) from error
