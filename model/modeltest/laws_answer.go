package modeltest

import (
	"context"
	"encoding/json"
	"sync"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model"
)

const greeting = "Görlitz liegt an der Neiße – grüß Gott, 你好 🙂."

// answerLaws are about complete answers.
func answerLaws() []law {
	usage := perdure.Usage{InputTokens: 120, OutputTokens: 30}
	two := []perdure.ToolCall{call("call_a", `{"word":"Neiße"}`), call("call_b", `{"word":"a","n":1.50,"deep":{"x":[1,null]}}`)}
	return []law{
		{situation: Situation{Name: "text", Text: greeting, Usage: usage, Finish: model.FinishStop}, check: checkComplete},
		{situation: Situation{Name: "one call", Calls: two[:1], Usage: usage, Finish: model.FinishCalls}, check: checkComplete},
		{situation: Situation{Name: "text and two calls", Text: greeting, Calls: two, Usage: usage, Finish: model.FinishCalls}, check: checkComplete},
		{situation: Situation{Name: "a call without arguments", Calls: []perdure.ToolCall{call("call_a", "{}")}, Usage: usage, Finish: model.FinishCalls}, check: checkComplete},
		{situation: Situation{Name: "thinking", Thinking: "Which Görlitz?", Signature: "c2lnbmVk", Text: greeting, Usage: usage, Finish: model.FinishStop}, check: checkComplete},
		{situation: Situation{Name: "the length is reached", Text: greeting, Usage: usage, Finish: model.FinishLength}, check: checkComplete},
		{situation: Situation{Name: "a refusal", Text: "I cannot help with that.", Usage: usage, Finish: model.FinishRefusal}, check: checkComplete},
		{situation: Situation{Name: "an empty answer", Usage: usage, Finish: model.FinishStop}, check: checkComplete},
		{situation: Situation{Name: "pieces split characters", Text: greeting, SplitCharacters: true, Usage: usage,
			Finish: model.FinishStop}, check: checkComplete},
		{situation: Situation{Name: "cached tokens", Text: greeting, Usage: perdure.Usage{InputTokens: 120, OutputTokens: 30, CachedTokens: 100}, Finish: model.FinishStop}, check: checkComplete},
		{situation: Situation{Name: "usage never shrinks", Text: greeting, SplitCharacters: true, Usage: usage, Finish: model.FinishStop}, check: checkUsage},
		{situation: Situation{Name: "arguments that are not JSON", Text: greeting,
			Calls: []perdure.ToolCall{call("call_a", `{"word":`)}, Usage: usage, Finish: model.FinishCalls},
			check: checkMalformed},
		{situation: Situation{Name: "16 at once", Text: greeting, Calls: two, Usage: usage, Finish: model.FinishCalls}, check: checkConcurrent},
		{situation: Situation{Name: "a transcript of every role", Text: greeting, Usage: usage, Finish: model.FinishStop}, check: checkTranscript},
	}
}

// checkComplete: the answer is exactly what the provider sent.
func checkComplete(t *testing.T, ctx context.Context, w lawContext) {
	w.checkComplete(t, ctx, request())
}

func (w lawContext) checkComplete(t *testing.T, ctx context.Context, req model.Request) {
	t.Helper()
	a, err := w.ask(t, ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	if got := a.Message.Text(); got != w.in.Text {
		t.Errorf("got text %q, want %q", got, w.in.Text)
	}
	if a.Message.Thinking != w.in.Thinking || a.Message.Signature != w.in.Signature {
		t.Errorf("got thinking %q signed %q, want %q signed %q", a.Message.Thinking, a.Message.Signature, w.in.Thinking, w.in.Signature)
	}
	sameCalls(t, a.Message.Calls(), w.in.Calls)
	if a.Finish != w.in.Finish {
		t.Errorf("got finish %q, want %q", a.Finish, w.in.Finish)
	}
	if a.Usage != w.in.Usage {
		t.Errorf("got usage %+v, want %+v", a.Usage, w.in.Usage)
	}
	if a.Discarded != 0 || a.Message.Interrupted {
		t.Errorf("got %d discarded calls, interrupted %v; want a complete answer", a.Discarded, a.Message.Interrupted)
	}
}

// checkUsage: usage is cumulative, so no count ever shrinks.
func checkUsage(t *testing.T, ctx context.Context, w lawContext) {
	var last perdure.Usage
	for d, err := range w.model.Stream(ctx, request()) {
		if err != nil {
			t.Fatal(err)
		}
		if d.Usage == nil {
			continue
		}
		if d.Usage.InputTokens < last.InputTokens || d.Usage.OutputTokens < last.OutputTokens || d.Usage.CachedTokens < last.CachedTokens {
			t.Errorf("got usage %+v after %+v", *d.Usage, last)
		}
		last = *d.Usage
	}
	if last != w.in.Usage {
		t.Errorf("got usage %+v in the end, want %+v", last, w.in.Usage)
	}
}

// checkMalformed: a call that the provider closed is yielded even if its arguments do not parse, so
// that the model learns what is wrong with them.
func checkMalformed(t *testing.T, ctx context.Context, w lawContext) {
	a, err := w.ask(t, ctx, request())
	if err != nil {
		t.Fatal(err)
	}
	calls := a.Message.Calls()
	if len(calls) != 1 || a.Discarded != 0 || calls[0].Name != w.in.Calls[0].Name {
		t.Fatalf("got %+v and %d discarded, want the one call", calls, a.Discarded)
	}
	if want, err := json.Marshal(string(w.in.Calls[0].Arguments)); err != nil || string(calls[0].Arguments) != string(want) {
		t.Errorf("got arguments %s, want the raw arguments as a string: %s", calls[0].Arguments, want)
	}
	if got := a.Message.Text(); got != w.in.Text {
		t.Errorf("got text %q, want %q", got, w.in.Text)
	}
}

// checkConcurrent: concurrent streams do not mix.
func checkConcurrent(t *testing.T, ctx context.Context, w lawContext) {
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			a, err := w.ask(t, ctx, request())
			if err != nil || a.Message.Text() != w.in.Text || len(a.Message.Calls()) != len(w.in.Calls) {
				t.Errorf("got text %q, %d calls, error %v", a.Message.Text(), len(a.Message.Calls()), err)
			}
		})
	}
	all.Wait()
}

// checkTranscript: a request can contain every role and every kind of part.
func checkTranscript(t *testing.T, ctx context.Context, w lawContext) {
	req := request()
	asked := call("call_1", `{"word":"Görlitz"}`)
	failed := call("call_2", `{}`)
	background := call("call_3", `{"word":"long"}`)
	result := perdure.ToolResult{
		CallID: asked.ID, Result: json.RawMessage(`{"found":true}`),
		// A PNG of one pixel.
		Images: []perdure.Image{{MediaType: "image/png", Base64: "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="}},
	}
	unlucky := perdure.Failed(failed.ID, perdure.ErrorTool, "word is missing")
	placeholder := perdure.ToolResult{CallID: background.ID, Result: json.RawMessage(`"It runs in the background."`)}
	image := result.Images[0]
	req.Messages = []perdure.Message{
		{Role: perdure.RoleUser, Parts: []perdure.Part{{Type: perdure.PartText, Text: "What is this?"}, {Type: perdure.PartImage, Image: &image}}},
		{Role: perdure.RoleAgent, Thinking: "Look.", Signature: "c2lnbmVk", Parts: []perdure.Part{
			{Type: perdure.PartText, Text: "I look it up."},
			{Type: perdure.PartToolCall, Call: &asked}, {Type: perdure.PartToolCall, Call: &failed}, {Type: perdure.PartToolCall, Call: &background},
		}},
		{Role: perdure.RoleToolResult, Parts: []perdure.Part{{Type: perdure.PartToolResult, Result: &result}}},
		{Role: perdure.RoleToolResult, Parts: []perdure.Part{{Type: perdure.PartToolResult, Result: &unlucky}}},
		{Role: perdure.RoleToolResult, Parts: []perdure.Part{{Type: perdure.PartToolResult, Result: &placeholder}}},
		{Role: perdure.RoleAgent, Parts: []perdure.Part{{Type: perdure.PartText, Text: "A town."}}},
		{Role: perdure.RoleNotification, Parts: []perdure.Part{{Type: perdure.PartText, Text: "lookup has ended: 12 entries"}}},
		perdure.Text("And now?"),
	}

	w.checkComplete(t, ctx, req)
}
