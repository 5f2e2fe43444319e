// What the UI reads of events and frames. docs/reference/events.md describes all of them.
import type { Schemas } from "../../client";

export type Event = Schemas["Event"];
export type Session = Schemas["Session"];
export type Task = Schemas["Task"] & Pick<Schemas["TaskRow"], "cost">; // lists have costs
export type Approval = Schemas["Approval"];

// Part is a piece of a message.
export type Part = {
  type: string;
  text?: string;
  tool_call?: { id: string; name: string; arguments: unknown };
  image?: Picture;
  image_file?: { id: string };
};

export type Message = { id?: string; role: string; parts?: Part[]; mode?: string; interrupted?: boolean };

export type Planned = {
  id: string;
  name: string;
  display_name?: string;
  narration?: string;
  class?: string;
  lane?: string;
  client_side?: boolean;
  refusal?: Result;
};

// Result is the result of a call.
export type Result = {
  result?: unknown;
  summary?: string;
  error?: string;
  error_kind?: string;
  untrusted?: boolean;
  images?: Picture[];
};

// Picture names an image that is stored with its session.
export type Picture = { id?: string; media_type?: string };

export type Usage = { input_tokens: number; output_tokens: number; cached_tokens?: number };

export type Progress = { current?: number; total?: number; unit?: string; label?: string };

// Frame is one message of the stream. Events have a seq; live frames are never stored.
export type Frame = { topic: string; type: string; data: unknown };

// Change is what a list topic sends.
export type Change<T> = { items: T[]; gone: string[] };
