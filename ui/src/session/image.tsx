import { useState } from "react";
import { server } from "../app/api";
import type { Picture } from "../event/types";
import { oneLine } from "../text/text";

const kinds = ["image/png", "image/jpeg", "image/gif", "image/webp"];

// Images shows images that are stored with the session. The server gives their bytes, with their type;
// no other address is ever used. Bytes that are no image leave their name.
export function Images({ session, images }: { session: string; images: readonly Picture[] }) {
  if (images.length === 0) return null;
  return (
    <div className="images">
      {images.map((image, i) => (image.id ? <Stored key={image.id} session={session} id={image.id} name={`Image ${i + 1}`} /> : <Unstored key={i} image={image} />))}
    </div>
  );
}

function Unstored({ image }: { image: Picture }) {
  const kind = kinds.includes(image.media_type ?? "") ? ` (${image.media_type})` : "";
  return <span className="soft small">An image{kind} that is not stored</span>;
}

function Stored({ session, id, name }: { session: string; id: string; name: string }) {
  const [broken, setBroken] = useState(false);
  if (broken) return <span className="soft small">{oneLine(id, 60)} cannot be shown: it was deleted, or is no image.</span>;
  const address = new URL(`v1/sessions/${encodeURIComponent(session)}/images/${encodeURIComponent(id)}`, server).href;
  return <img src={address} alt={name} loading="lazy" decoding="async" onError={() => setBroken(true)} />;
}
