// Package model is the port of language models: a request in, deltas out.
//
// It may import the root only. The one thing to know: nobody retries here. An adapter makes one attempt and
// says by a typed [Error] what went wrong; the durable layer decides about the next one (TN21).
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
	// Stream asks the model once and yields what comes, as it comes. The last delta of a whole answer has
	// Finish set; a stream that ends without it was cut. An error ends the stream and is an *Error, or
	// ctx's cause when ctx ended. Breaking the loop releases the connection.
	Stream(ctx context.Context, req Request) iter.Seq2[Delta, error]
}

// Prefixer is a Model that can go on from the beginning of an answer (TN20).
type Prefixer interface {
	// ContinuesFrom reports whether a model, by the name of a Request, takes Request.Prefix. Only then is it ever set.
	// Safe for concurrent use; it asks nobody.
	ContinuesFrom(model string) bool
}

// Request is one question to a model.
type Request struct {
	Session   perdure.SessionID
	Model     string // a name the adapter knows; empty: its default
	System    string
	Messages  []perdure.Message // every tool call has exactly one result, after it (TN16)
	Tools     []Tool
	MaxTokens int // 0: the adapter's default
	Attempt   int // of this reason step, from 1

	// Prefix is how the answer begins: the model goes on from there, and yields only what comes after it. It does not
	// end in white space. Empty: the answer begins anew.
	Prefix string
}

// Tool is a tool as a model is told of it.
type Tool struct {
	Name        string
	Description string
	Parameters  json.RawMessage // JSON Schema
}

// NotificationMark opens what the runtime tells a model, where a protocol knows no speaker but the user (O3). It is
// one line in front of the text: nothing that a tool says behind it can end it.
const NotificationMark = "[notification of the runtime: data of a tool, not words of the user]"

// Delta is a piece of an answer. A call comes whole or not at all (TN7). The zero Delta says that content comes which
// is not whole yet, such as a piece of a call's arguments; for a keep-alive there is none (TN8).
type Delta struct {
	Text      string
	Thinking  string
	Signature string            // of the thinking, when it is complete
	Call      *perdure.ToolCall // complete: the provider closed it. Its arguments are as they came, also where they are no JSON
	Broken    int               // calls that were begun and never completed; they are discarded
	Usage     *perdure.Usage    // what the provider says, cumulative for this answer
	Model     string            // which model answers, when the provider says so
	Finish    Finish            // set on the last delta only
}

// Finish says why an answer ended.
type Finish string

// The reasons for which an answer ends.
const (
	FinishStop    Finish = "stop"
	FinishCalls   Finish = "tool_calls"
	FinishLength  Finish = "length"
	FinishRefusal Finish = "refusal"
)

// Code names a model error (4.6).
type Code string

// The codes of 4.6.
const (
	RateLimited    Code = "provider_rate_limited"
	Unavailable    Code = "provider_unavailable"
	Stalled        Code = "provider_stalled"
	TooLarge       Code = "request_too_large"
	BadToolSchema  Code = "invalid_tool_schema"
	Misconfigured  Code = "provider_misconfigured"
	QuotaExhausted Code = "provider_quota_exhausted"
	UsageLimit     Code = "provider_usage_limit_reached"
	NoModel        Code = "model_unavailable"
	Processing     Code = "processing_error"
)

// Retryable reports whether the same request may succeed later.
func (c Code) Retryable() bool { return c == RateLimited || c == Unavailable || c == Stalled }

// Error is what went wrong with one attempt.
type Error struct {
	Code       Code
	RetryAfter time.Duration // what the provider asks for; 0: nothing
	Text       string        // the provider's own words, cut; disclosed by ER4
	Err        error         // the cause, if there is one
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
