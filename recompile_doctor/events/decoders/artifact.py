"""The envelope of an artifact, whose content is all in the payload."""

import msgspec

from recompile_doctor.events.decoders.record import Envelope


class ArtifactRecord(Envelope):
    """An artifact's record: its name was seen already, its encoding says nothing reliable."""


ARTIFACT = msgspec.json.Decoder(ArtifactRecord)
