package scripted

import (
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model"
)

// Script says what a model answers. It has rules, steps, or both.
type Script struct {
	Name  string // what errors call it; empty: "script"
	Rules []Rule // looked at first, from the top; the first that holds answers
	Steps []Step // then these, by the number of agent messages in the transcript
	// Prefix says that the model goes on from the beginning of an answer: it gives the rest of the reply that has it. What
	// of that comes is counted from there, where a stream is cut.
	Prefix bool
}

// Rule is a reply, and when it is given.
type Rule struct {
	When  When
	Reply Reply
}

// Step is the reply to a transcript with as many agent messages as there are steps before it.
type Step struct {
	Reply  Reply
	Repeat bool // answers all that comes after it too; the last step only
}

// When holds conditions; a rule needs at least one, and all of them must hold. Zero and nil mean: whatever it is.
// The text of a tool result is its JSON.
type When struct {
	LastRole      perdure.Role // of the last message
	LastContains  string       // in the text of the last message
	LastMatches   string       // an RE2 expression, somewhere in the text of the last message
	UserContains  string       // in the text of the last user message
	Step          *int         // agent messages so far
	TurnStep      *int         // agent messages since the last user message or notification
	Attempt       *int         // of the reason step, from 1
	Notifications *int         // at least so many so far, from 1
	Called        string       // a tool that was called before
	NotCalled     string       // a tool that was not
}

// Reply is one answer, and how it comes: delay, stall, thinking, text, calls, end. The zero value is an
// empty answer. Text, Thinking and the texts in Args may be templates.
type Reply struct {
	Text      string
	Thinking  string
	Signature string // of the thinking
	Calls     []Call

	Delay time.Duration // before anything comes
	Stall time.Duration // after the stream is open and before the first content
	Chunk int           // bytes of a piece of text or thinking, on the borders of runes; 0: one piece
	Pace  time.Duration // between pieces and calls

	Usage   *perdure.Usage // nil: an estimate, a token for four bytes
	Finish  model.Finish   // empty: refusal, tool_calls or stop, as it fits
	Refusal bool           // the model refuses

	Error         *Failure // the stream ends with an error
	CutAfterBytes *int     // the stream ends after so many bytes of text and arguments; nil: it does not
}

// Call is a tool call of a reply.
type Call struct {
	ID   string // empty: the runtime makes one
	Name string
	// Args is a string that holds JSON, or any other value that encodes as JSON; nil: {}.
	Args any
	// RawArgs are arguments exactly as they stand, for what is no JSON; empty: Args count.
	RawArgs string
}

// Failure is an error of the provider.
type Failure struct {
	Code       model.Code
	Text       string
	RetryAfter time.Duration // 0: nothing is asked for
	AfterBytes *int          // comes after so many bytes of text and arguments; nil: instead of an answer
}
