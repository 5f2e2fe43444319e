package scripted

import (
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model"
)

// Script defines the answers of a model. It has rules, steps, or both.
type Script struct {
	Name  string // used in errors; empty: "script"
	Rules []Rule // checked first, from the top; the first that holds answers
	Steps []Step // used if no rule holds, by the number of agent messages in the transcript
	// Prefix lets the model continue a given beginning of an answer: it returns the rest of the
	// reply, which must have that beginning. Byte counts for cutting a stream start at the rest.
	Prefix bool
}

// Rule is a reply with the conditions for it.
type Rule struct {
	When  When
	Reply Reply
}

// Step is the reply to a transcript with as many agent messages as there are steps before this one.
type Step struct {
	Reply  Reply
	Repeat bool // it also answers everything after it; only for the last step
}

// When has the conditions of a rule. A rule needs at least one, and all of them must hold. Zero and
// nil fields match everything. The text of a tool result is its JSON.
type When struct {
	LastRole      perdure.Role // of the last message
	LastContains  string       // in the text of the last message
	LastMatches   string       // an RE2 expression, somewhere in the text of the last message
	UserContains  string       // in the text of the last user message
	Step          *int         // agent messages so far
	TurnStep      *int         // agent messages since the last user message or notification
	Attempt       *int         // of the reason step, from 1
	Notifications *int         // at least this many so far, from 1
	Called        string       // a tool that was called
	NotCalled     string       // a tool that was not called
}

// Reply is one answer, and how it is streamed: delay, stall, thinking, text, calls, end. The zero
// value is an empty answer. Text, Thinking and the texts in Args may be templates.
type Reply struct {
	Text      string
	Thinking  string
	Signature string // of the thinking
	Calls     []Call

	Delay time.Duration // before anything is sent
	Stall time.Duration // between the opening of the stream and its first content
	Chunk int           // bytes in a piece of text or thinking, split between characters; 0: one piece
	Pace  time.Duration // between pieces and calls

	Usage   *perdure.Usage // nil: an estimate of one token for four bytes
	Finish  model.Finish   // empty: refusal, tool_calls or stop, whichever fits
	Refusal bool           // the model refuses

	Error         *Failure // the stream ends with an error
	CutAfterBytes *int     // the stream ends after this many bytes of text and arguments; nil: it does not
}

// Call is a tool call of a reply.
type Call struct { // empty: the runtime makes one
	ID   string // empty: the runtime makes one
	Name string
	// Args is a string that contains JSON, or any other value that encodes as JSON; nil: {}.
	Args any
	// RawArgs are the exact arguments, for text that is not JSON. Empty: Args is used.
	RawArgs string
}

// Failure is an error of the provider.
type Failure struct {
	Code       model.Code
	Text       string
	RetryAfter time.Duration // 0: none
	AfterBytes *int          // it comes after this many bytes of text and arguments; nil: instead of an answer
}
