package model_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model"
)

var errBroken = &model.Error{Code: model.Unavailable, Text: "connection reset"}

// stream yields deltas, and then an error if there is one.
func stream(end error, deltas ...model.Delta) iter.Seq2[model.Delta, error] {
	return func(yield func(model.Delta, error) bool) {
		for _, d := range deltas {
			if !yield(d, nil) {
				return
			}
		}
		if end != nil {
			yield(model.Delta{}, end)
		}
	}
}

func call(name, args string) *perdure.ToolCall {
	return &perdure.ToolCall{ID: "call_1", Name: name, Arguments: json.RawMessage(args)}
}

func text(s string) perdure.Part { return perdure.Part{Type: perdure.PartText, Text: s} }

func use(args string) perdure.Part {
	return perdure.Part{Type: perdure.PartToolCall, Call: call("bash", args)}
}

// collected is a stream and what comes of it.
type collected struct {
	name string
	seq  iter.Seq2[model.Delta, error]
	want model.Answer
	err  error
}

func TestCollect(t *testing.T) {
	t.Parallel()
	check(t, []collected{
		{
			name: "text is one part and stands before the calls",
			seq: stream(nil, model.Delta{Text: "I "}, model.Delta{Call: call("bash", `{"a":1}`)}, model.Delta{Text: "look."},
				model.Delta{Call: call("bash", `{}`)}, model.Delta{Finish: model.FinishCalls}),
			want: model.Answer{Message: perdure.Message{Parts: []perdure.Part{text("I look."), use(`{"a":1}`), use("{}")}}, Finish: model.FinishCalls},
		},
		{
			name: "thinking and its signature",
			seq: stream(nil, model.Delta{Thinking: "a"}, model.Delta{Thinking: "b", Signature: "s"},
				model.Delta{State: &perdure.ProviderState{Family: "f"}, Finish: model.FinishStop}),
			want: model.Answer{Message: perdure.Message{Thinking: "ab", Signature: "s", State: &perdure.ProviderState{Family: "f"}},
				Finish: model.FinishStop},
		},
		{
			name: "usage is cumulative, so the last one counts",
			seq: stream(nil, model.Delta{Model: "m-1", Usage: &perdure.Usage{InputTokens: 5}},
				model.Delta{Usage: &perdure.Usage{InputTokens: 5, OutputTokens: 2}, Finish: model.FinishLength}),
			want: model.Answer{
				Message: perdure.Message{Model: "m-1"}, Model: "m-1",
				Usage: perdure.Usage{InputTokens: 5, OutputTokens: 2}, Finish: model.FinishLength,
			},
		},
		{
			name: "nothing after the finish is read",
			seq:  stream(errBroken, model.Delta{Text: "a", Finish: model.FinishStop}, model.Delta{Text: "a"}),
			want: model.Answer{Message: perdure.Message{Parts: []perdure.Part{text("a")}}, Finish: model.FinishStop},
		},
		{
			name: "an error keeps what came before",
			seq:  stream(errBroken, model.Delta{Text: "half"}, model.Delta{DiscardedCalls: 1}),
			want: model.Answer{Message: perdure.Message{Parts: []perdure.Part{text("half")}, Interrupted: true}, Discarded: 1},
			err:  errBroken,
		},
		{
			name: "an end without a finish is no answer",
			seq:  stream(nil, model.Delta{Text: "half"}),
			want: model.Answer{Message: perdure.Message{Parts: []perdure.Part{text("half")}, Interrupted: true}},
			err:  &model.Error{Code: model.Unavailable, Text: "stream ended early"},
		},
		{
			name: "an empty answer is whole",
			seq:  stream(nil, model.Delta{Finish: model.FinishStop}),
			want: model.Answer{Finish: model.FinishStop},
		},
	})
}

// TestCollectCalls: a call is accepted when it is complete, and only then (TN7).
func TestCollectCalls(t *testing.T) {
	t.Parallel()
	check(t, []collected{
		{
			name: "arguments that are no object stay as they came",
			seq:  stream(nil, model.Delta{Call: call("bash", ` [1, 1] `), Finish: model.FinishCalls}),
			want: model.Answer{Message: perdure.Message{Parts: []perdure.Part{use(` [1, 1] `)}}, Finish: model.FinishCalls},
		},
		{
			name: "no arguments are an empty object",
			seq:  stream(nil, model.Delta{Call: call("bash", " "), Finish: model.FinishCalls}),
			want: model.Answer{Message: perdure.Message{Parts: []perdure.Part{use("{}")}}, Finish: model.FinishCalls},
		},
		{
			name: "arguments that do not parse are a string of what came",
			seq:  stream(nil, model.Delta{Call: call("bash", `{"a":`), Finish: model.FinishCalls}),
			want: model.Answer{Message: perdure.Message{Parts: []perdure.Part{use(`"{\"a\":"`)}}, Finish: model.FinishCalls},
		},
		{
			name: "a call without a name is discarded",
			seq: stream(nil, model.Delta{Call: call("", `{}`)}, model.Delta{DiscardedCalls: 2},
				model.Delta{Finish: model.FinishCalls}),
			want: model.Answer{Discarded: 3, Finish: model.FinishCalls},
		},
	})
}

func check(t *testing.T, cases []collected) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.want.Message.Role = perdure.RoleAgent

			got, err := model.Collect(c.seq, nil)

			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.err, err); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCollectBound: an answer that says more than 8 MiB, whatever it consists of, is left there,
// and what came before is kept.
func TestCollectBound(t *testing.T) {
	t.Parallel()
	piece := strings.Repeat("x", 1<<20)
	for name, d := range map[string]model.Delta{
		"text": {Text: piece}, "thinking": {Thinking: piece}, "calls": {Call: call("bash", `"`+piece[:len(piece)-len("call_1bash")-2]+`"`)},
	} {
		seen, read := 0, 0
		endless := func(yield func(model.Delta, error) bool) {
			for ; read < 100; read++ {
				if !yield(d, nil) {
					return
				}
			}
		}

		got, err := model.Collect(endless, func(model.Delta) { seen++ })

		var failed *model.Error
		if !errors.As(err, &failed) || failed.Code != model.Processing || !strings.Contains(failed.Text, "8 MiB") {
			t.Errorf("%s: got %v", name, err)
		}
		if seen != 8 || read != 8 || !got.Message.Interrupted {
			t.Errorf("%s: %d deltas were seen, %d read, interrupted %v; want 8, 8, true", name, seen, read, got.Message.Interrupted)
		}
		if n := len(got.Message.Text()) + len(got.Message.Thinking); name != "calls" && n != 8<<20 || name == "calls" && len(got.Message.Calls()) != 8 {
			t.Errorf("%s: got %d bytes and %d calls", name, n, len(got.Message.Calls()))
		}
	}
	whole, err := model.Collect(stream(nil, model.Delta{Text: strings.Repeat("x", 8<<20)}, model.Delta{Finish: model.FinishStop}), nil)
	if err != nil || whole.Finish != model.FinishStop {
		t.Errorf("an answer of 8 MiB: got finish %q, %v", whole.Finish, err)
	}
}

func TestCollectShowsEveryDelta(t *testing.T) {
	t.Parallel()
	deltas := []model.Delta{{Text: "a"}, {DiscardedCalls: 1}, {Text: "b", Finish: model.FinishStop}}
	var seen []model.Delta

	_, err := model.Collect(stream(nil, deltas...), func(d model.Delta) { seen = append(seen, d) })

	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(deltas, seen); diff != "" {
		t.Errorf("seen (-want +got):\n%s", diff)
	}
}

func TestCodes(t *testing.T) {
	t.Parallel()
	retryable := 0
	seen := map[model.Code]bool{}
	for _, code := range model.Codes() {
		if seen[code] {
			t.Errorf("%s stands there twice", code)
		}
		seen[code] = true
		if code.Retryable() {
			retryable++
		}
	}

	if len(seen) != 10 || retryable != 3 {
		t.Errorf("got %d codes, %d of them retryable; want 10 and 3", len(seen), retryable)
	}
	wrapped := fmt.Errorf("ask: %w", &model.Error{Code: model.Processing, Err: perdure.Invalid})
	if !errors.Is(wrapped, perdure.Invalid) {
		t.Error("the cause of an error is lost")
	}
}

func ExampleCollect() {
	seq := stream(nil, model.Delta{Text: "Hello, "}, model.Delta{Text: "you."}, model.Delta{Finish: model.FinishStop})

	answer, err := model.Collect(seq, func(d model.Delta) { fmt.Printf("%q\n", d.Text) })

	fmt.Println(answer.Message.Text(), answer.Finish, err)
	// Output:
	// "Hello, "
	// "you."
	// ""
	// Hello, you. stop <nil>
}
