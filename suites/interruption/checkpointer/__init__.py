"""Checkpoints that survive an interruption. README.md tells how to use it in a job of your own."""

from .checkpoints import Checkpointer, Event, Restored, RestoreError, Save
from .data import ResumableBatches
from .destinations import Destination, FolderDestination, PermanentError, UploadError
from .state import Stateful, TrainingState
from .stopping import FileNotice, Notice, StopFlag, UrlNotice, leave_signals_to_parent, signals_held
from .uploading import Upload

__all__ = [
    "Checkpointer",
    "Destination",
    "Event",
    "FileNotice",
    "FolderDestination",
    "Notice",
    "PermanentError",
    "RestoreError",
    "Restored",
    "ResumableBatches",
    "Save",
    "Stateful",
    "StopFlag",
    "TrainingState",
    "Upload",
    "UploadError",
    "UrlNotice",
    "leave_signals_to_parent",
    "signals_held",
]
