package provider

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model"
)

const (
	// testTime is how long a model may take for the response to a test.
	testTime = 30 * time.Second
	// testTokens limits that response. Some models accept no smaller limit.
	testTokens = 16
)

// errNoResponse is the cause of a test without a response.
var errNoResponse = fmt.Errorf("no response within %s", testTime)

// Result is what a test found out.
type Result struct {
	Latency time.Duration // at least a millisecond
	Tokens  int64         // of request and response; 0: not reported
	Err     error         // why there is no response; nil: there is one
}

// Test sends one short request to a model and waits at most 30 seconds for the response. name is a
// name that the model knows; empty: its default. The error is the cause of ctx, if ctx ended.
func Test(ctx context.Context, m model.Model, name string) (Result, error) {
	ctx, stop := context.WithTimeoutCause(ctx, testTime, errNoResponse)
	defer stop()
	began := time.Now()
	answer, err := model.Collect(m.Stream(ctx, model.Request{
		Model: name, MaxTokens: testTokens, Attempt: 1,
		Messages: []perdure.Message{{Role: perdure.RoleUser,
			Parts: []perdure.Part{{Type: perdure.PartText, Text: "Answer with the word ok."}}}},
	}), nil)
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(cause, errNoResponse) {
		return Result{}, cause
	}
	return Result{
		Latency: max(time.Since(began), time.Millisecond),
		Tokens:  answer.Usage.InputTokens + answer.Usage.OutputTokens, Err: err,
	}, nil
}
