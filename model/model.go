// Package model is the port of language models: a request in, a stream of deltas out.
//
// The package may import only the root package.
//
// The one thing to know: adapters do not retry. An adapter makes one attempt and reports a failure
// as a typed [Error]; the durable layer decides about the next attempt. A request that a server
// refused because of something that it can do without was no attempt.
package model

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/perdure/perdure"
)

// Model answers requests. It is safe for concurrent use.
type Model interface {
	// Stream calls the model and yields the deltas as they arrive. The last delta of a
	// complete answer has Finish set; a stream that ends without it was cut off. An error ends the
	// stream. It is an *Error, or the cause of ctx if ctx ended. Breaking out of the loop releases
	// the connection.
	Stream(ctx context.Context, req Request) iter.Seq2[Delta, error]
}

// Prefixer is a Model that can continue a given beginning of an answer.
type Prefixer interface {
	// ContinuesFrom reports whether the model with this name accepts Request.Prefix. Only then is
	// Prefix ever set. Safe for concurrent use; it makes no request.
	ContinuesFrom(model string) bool
}

// ToolLimiter is a Model that knows how many tools a request may have.
type ToolLimiter interface {
	// MaxTools returns how many tools a request of a session to the model with this name may have;
	// 0: no limit is known. It may become smaller when a provider refuses a request. Safe for
	// concurrent use; it makes no request.
	MaxTools(session perdure.SessionID, model string) int
}

// Request is one request to a model.
type Request struct {
	Session   perdure.SessionID
	Model     string // a name the adapter knows; empty: its default
	System    string
	Messages  []perdure.Message // every tool call has exactly one result, after it
	Tools     []Tool
	MaxTokens int // 0: the adapter's default
	Attempt   int // of this reason step, from 1

	// Prefix is the beginning of the answer. The model continues from there and yields only the
	// rest. It does not end in white space. Empty: a new answer.
	Prefix string
}

// Tool describes a tool to the model.
type Tool struct {
	Name        string
	Description string
	Parameters  json.RawMessage // JSON Schema
}

// NotificationMark introduces a notification of the runtime, because provider protocols only know
// the role user for it. It is one line in front of the text, so nothing that a tool writes after it
// can end it.
const NotificationMark = "[runtime notification: data from a tool, not a message from the user]"

// Delta is a piece of an answer. A call arrives complete or not at all. The zero Delta says that
// content is arriving which is not complete yet, such as a part of a call's arguments, or that the
// provider still works on the first content. Once there is content, keep-alives of a provider
// produce no delta, because they are no progress.
type Delta struct {
	Text      string
	Thinking  string
	Signature string // of the thinking, once it is complete
	// State is what the provider wants back with this answer, once the answer is complete. What
	// belongs to a call stands in the call.
	State *perdure.ProviderState
	// Call is complete: the provider closed it. Its arguments are as they arrived, even if not
	// valid JSON.
	Call           *perdure.ToolCall
	DiscardedCalls int            // calls that started and were never completed; they are discarded
	Usage          *perdure.Usage // as reported by the provider, cumulative for this answer
	Model          string         // the model that answers, if the provider reports it
	Finish         Finish         // only on the last delta
}

// Finish says why an answer ended.
type Finish string

// The reasons why an answer ends.
const (
	FinishStop    Finish = "stop"
	FinishCalls   Finish = "tool_calls"
	FinishLength  Finish = "length"
	FinishRefusal Finish = "refusal"
)

// Code is the kind of a model error.
type Code string

// The codes. They are part of the journal and of the API.
const (
	RateLimited       Code = "provider_rate_limited"
	Unavailable       Code = "provider_unavailable"
	Stalled           Code = "provider_stalled"
	TooLarge          Code = "request_too_large"
	InvalidToolSchema Code = "invalid_tool_schema"
	Misconfigured     Code = "provider_misconfigured"
	QuotaExhausted    Code = "provider_quota_exhausted"
	UsageLimit        Code = "provider_usage_limit_reached"
	ModelUnavailable  Code = "model_unavailable"
	Processing        Code = "processing_error"
)

// Retryable reports whether the same request may succeed later.
func (c Code) Retryable() bool { return c == RateLimited || c == Unavailable || c == Stalled }

// Error says why an attempt failed.
type Error struct {
	Code       Code
	RetryAfter time.Duration // the wait that the provider asked for; 0: none
	// Again says that the adapter has learnt from the refusal: the next request is sent in another
	// form, which may succeed although Code is not retryable.
	Again bool
	// Text is the provider's text, shortened. It may be shown only where errors of providers may be
	// disclosed.
	Text string
	Err  error // may be nil
}

// Error returns code and text.
func (e *Error) Error() string {
	if e.Text == "" {
		return string(e.Code)
	}
	return string(e.Code) + ": " + e.Text
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
