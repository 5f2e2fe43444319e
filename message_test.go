package perdure_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
)

// TestDecideMode is DL10: what a message does to a turn that runs.
func TestDecideMode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mode  perdure.Mode
		joins bool // enters the running turn at its next safe point
		stops bool // interrupts the running turn
	}{
		{mode: "", joins: true},
		{mode: perdure.ModeSteer, joins: true},
		{mode: perdure.ModeQueue},
		{mode: perdure.ModeInterrupt, stops: true},
		{mode: perdure.ModeReject}, // refused while a turn runs; one that slipped in waits like queue
	} {
		t.Run("DL10_"+string(c.mode)+"_in_a_turn", func(t *testing.T) {
			t.Parallel()
			w := asking(t, perdure.Agent{})
			w.settle(w.answer("", call("a"))...)
			id := w.receive("and this", c.mode)

			w.wake()
			if got := w.runs()[0].Stop; got != c.stops {
				t.Fatalf("the call is stopped: got %t, want %t", got, c.stops)
			}
			w.settle(done(w.runs()[0].Call, `1`))

			if got := len(w.laws.turns) == 2; got != c.stops {
				t.Errorf("the next turn starts: got %t, want %t", got, c.stops)
			}
			reason := last[perdure.ReasonStarted](t, w)
			if got := cmp.Equal(reason.Inputs, []perdure.MessageID{id}); got != (c.joins || c.stops) {
				t.Errorf("inputs of the next reason step: got %v, want the message: %t", reason.Inputs, c.joins || c.stops)
			}
		})
		t.Run("DL10_"+string(c.mode)+"_at_rest", func(t *testing.T) {
			t.Parallel()
			w := newSimulator(t, perdure.Agent{})
			id := w.receive("do it", c.mode)

			w.wake()

			if got := last[perdure.TurnStarted](t, w).MessageID; got != id {
				t.Errorf("input: got %s, want %s", got, id)
			}
			if m, ok := w.model(); !ok || m.Stop {
				t.Errorf("due: got %+v, want the model to be asked", w.due)
			}
		})
	}
}

// TestDecideQueue has several messages that wait together.
func TestDecideQueue(t *testing.T) {
	t.Parallel()
	w := newSimulator(t, perdure.Agent{})
	first, steers, queued := w.receive("first", perdure.ModeQueue), w.receive("steers", perdure.ModeSteer), w.receive("queued", perdure.ModeQueue)

	w.wake()
	if got, want := last[perdure.ReasonStarted](t, w).Inputs, []perdure.MessageID{first, steers}; !cmp.Equal(got, want) {
		t.Errorf("inputs of the first turn: got %v, want %v", got, want)
	}
	w.settle(w.answer("done")...)

	if got, want := last[perdure.ReasonStarted](t, w).Inputs, []perdure.MessageID{queued}; !cmp.Equal(got, want) {
		t.Errorf("inputs of the second turn: got %v, want %v", got, want)
	}
}

func TestModeValid(t *testing.T) {
	t.Parallel()
	for mode, want := range map[perdure.Mode]bool{
		"": true, perdure.ModeSteer: true, perdure.ModeQueue: true, perdure.ModeInterrupt: true, perdure.ModeReject: true, "later": false,
	} {
		if got := mode.Valid(); got != want {
			t.Errorf("%q is valid: got %t, want %t", mode, got, want)
		}
	}
}

func TestMessage(t *testing.T) {
	t.Parallel()
	m := perdure.Message{Parts: []perdure.Part{
		{Type: perdure.PartText, Text: "one"},
		{Type: perdure.PartToolCall, Call: &perdure.ToolCall{ID: "a"}},
		{Type: perdure.PartText, Text: "two"},
		{Type: perdure.PartToolCall},
		{Type: perdure.PartToolCall, Call: &perdure.ToolCall{ID: "b"}},
	}}

	if got, want := m.Text(), "one\ntwo"; got != want {
		t.Errorf("text: got %q, want %q", got, want)
	}
	if got, want := m.Calls(), []perdure.ToolCall{{ID: "a"}, {ID: "b"}}; !cmp.Equal(got, want) {
		t.Errorf("calls: got %+v, want %+v in the model's order", got, want)
	}
	if got := perdure.Text("hi"); got.Role != perdure.RoleUser || got.Text() != "hi" || len(got.Calls()) != 0 {
		t.Errorf("Text: got %+v, want a user's message", got)
	}
}

func TestUsageAdd(t *testing.T) {
	t.Parallel()
	got := perdure.Usage{InputTokens: 1, OutputTokens: 2, CachedTokens: 3}.Add(perdure.Usage{InputTokens: 10, OutputTokens: 20, CachedTokens: 30})
	if want := (perdure.Usage{InputTokens: 11, OutputTokens: 22, CachedTokens: 33}); got != want {
		t.Errorf("sum: got %+v, want %+v", got, want)
	}
}

// TestUsageAdds: whatever a provider reports, sums are not negative and do not go round.
func TestUsageAdds(t *testing.T) {
	t.Parallel()
	most := perdure.Usage{InputTokens: math.MaxInt64, OutputTokens: 2, CachedTokens: -5}

	got := most.Add(most)

	if want := (perdure.Usage{InputTokens: math.MaxInt64, OutputTokens: 4}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestUntrusted: what came from outside stands in the transcript as such, also when a later turn
// reads it again, in a fork of the session, and after the repair of a transcript (S3).
func TestUntrusted(t *testing.T) {
	t.Parallel()
	text := func(untrusted bool) perdure.Part {
		return perdure.Part{Type: perdure.PartText, Text: "x", Untrusted: untrusted}
	}
	result := func(untrusted bool) perdure.Part {
		return perdure.Part{Type: perdure.PartToolResult, Result: &perdure.ToolResult{CallID: "call_1", Untrusted: untrusted}}
	}
	for name, c := range map[string]struct {
		parts []perdure.Part
		want  bool
	}{
		"nothing":                      {nil, false},
		"words of a person":            {[]perdure.Part{text(false)}, false},
		"a mail beside them":           {[]perdure.Part{text(false), text(true)}, true},
		"a result of our own":          {[]perdure.Part{result(false)}, false},
		"a result from outside":        {[]perdure.Part{result(true)}, true},
		"a message that is not a part": {[]perdure.Part{{Type: perdure.PartToolResult}}, false},
	} {
		message := perdure.Message{Role: perdure.RoleUser, Parts: c.parts}
		s := perdure.NewSession("session_1")
		s.Transcript = []perdure.Message{perdure.Text("before"), message, perdure.Text("after")}
		if message.Untrusted() != c.want || s.ReadUntrusted() != c.want {
			t.Errorf("%s: got %t and %t, want %t", name, message.Untrusted(), s.ReadUntrusted(), c.want)
		}
	}

	w := asking(t, perdure.Agent{})
	w.settle(w.answer("", call("a"))...)
	w.wake()
	run := w.runs()[0].Call

	w.settle(completed(run, perdure.ToolResult{CallID: run.ID, Result: json.RawMessage(`1`), Untrusted: true}))
	w.wake()

	marked := 0
	for _, m := range w.session.Transcript {
		for _, p := range m.Parts {
			if p.Untrusted {
				marked++
			}
		}
	}
	if !w.session.ReadUntrusted() || marked != 1 {
		t.Errorf("%d parts are marked, want the result of the call", marked)
	}
}

// TestCheckInput is O4: what a user may send, and for which field and reason a message is refused.
func TestCheckInput(t *testing.T) {
	t.Parallel()
	const id, image = "message_0123456789abcdef0123456789abcdef", "image_0123456789abcdef0123456789abcdef"
	png := &perdure.Image{Base64: "AAAA", MediaType: "image/png"}
	file := &perdure.ImageFile{ID: image}
	text := perdure.Part{Type: perdure.PartText, Text: "a", Untrusted: true}
	with := func(parts ...perdure.Part) perdure.Message { return perdure.Message{Parts: parts} }
	edited := func(edit func(*perdure.Message)) perdure.Message {
		m := with(text)
		edit(&m)
		return m
	}
	for name, c := range map[string]struct {
		message perdure.Message
		field   string // empty: it may be sent
		text    string // a part of the reason
	}{
		"a text":       {message: perdure.Text("a")},
		"white space":  {message: perdure.Text(" ")},
		"an image":     {message: with(perdure.Part{Type: perdure.PartImage, Image: png})},
		"a stored one": {message: with(perdure.Part{Type: perdure.PartImageFile, ImageFile: file})},
		"all of them": {message: with(text, perdure.Part{Type: perdure.PartImage, Image: png, Untrusted: true},
			perdure.Part{Type: perdure.PartImageFile, ImageFile: file})},
		"a chosen id, a mode, a model and metadata": {message: edited(func(m *perdure.Message) {
			m.ID, m.Role, m.Mode, m.Model, m.Metadata = id, perdure.RoleUser, perdure.ModeReject, "m", map[string]string{"a": "b"}
		})},

		"an id of something else": {edited(func(m *perdure.Message) { m.ID = "task_1" }), "id", `"task_1" is not the id of a message`},
		"another role":            {edited(func(m *perdure.Message) { m.Role = perdure.RoleAgent }), "role", `"agent" cannot be sent: use user`},
		"no mode":                 {edited(func(m *perdure.Message) { m.Mode = "shout" }), "mode", `"shout" is not a mode: use steer, queue, interrupt or reject`},
		"thinking":                {edited(func(m *perdure.Message) { m.Thinking = "a" }), "thinking", "only an answer of a model has it"},
		"a signature":             {edited(func(m *perdure.Message) { m.Signature = "a" }), "thinking", "leave out thinking, signature"},
		"state of a provider":     {edited(func(m *perdure.Message) { m.State = &perdure.ProviderState{} }), "thinking", "provider_state"},
		"an interrupted one":      {edited(func(m *perdure.Message) { m.Interrupted = true }), "thinking", "and interrupted"},
		"no part":                 {with(), "parts", "the message is empty: give at least one part"},
		"the second part":         {with(text, perdure.Part{}), "parts/1/type", `"" cannot be sent: use text, image or image_file`},
		"a call":                  {with(perdure.Part{Type: perdure.PartToolCall, Text: "a"}), "parts/0/type", `"tool_call" cannot be sent`},
		"a result":                {with(perdure.Part{Type: perdure.PartToolResult}), "parts/0/type", `"tool_result" cannot be sent`},
		"no text":                 {with(perdure.Part{Type: perdure.PartText}), "parts/0", "a part of type text must have a non-empty text and no other content"},
		"a text and an image":     {with(perdure.Part{Type: perdure.PartText, Text: "a", Image: png}), "parts/0", "no other content"},
		"a text and a call":       {with(perdure.Part{Type: perdure.PartText, Text: "a", Call: &perdure.ToolCall{}}), "parts/0", "no other content"},
		"a text and a result":     {with(perdure.Part{Type: perdure.PartText, Text: "a", Result: &perdure.ToolResult{}}), "parts/0", "no other content"},
		"no image":                {with(perdure.Part{Type: perdure.PartImage}), "parts/0", "a part of type image must have a non-empty image"},
		"an image with text":      {with(perdure.Part{Type: perdure.PartImage, Image: png, Text: "a"}), "parts/0", "no other content"},
		"an image with no bytes":  {with(perdure.Part{Type: perdure.PartImage, Image: &perdure.Image{MediaType: "image/png"}}), "parts/0/image/base64", "it is empty or not base64"},
		"an image not in base64":  {with(perdure.Part{Type: perdure.PartImage, Image: &perdure.Image{Base64: "?", MediaType: "image/png"}}), "parts/0/image/base64", "it is empty or not base64"},
		"no image type":           {with(perdure.Part{Type: perdure.PartImage, Image: &perdure.Image{Base64: "AAAA", MediaType: "a/b"}}), "parts/0/image/media_type", `"a/b" is not the type of an image`},
		"no stored image":         {with(perdure.Part{Type: perdure.PartImageFile}), "parts/0", "a part of type image_file must have a non-empty image_file"},
		"a stored image and text": {with(perdure.Part{Type: perdure.PartImageFile, ImageFile: file, Text: "a"}), "parts/0", "no other content"},
		"no id of an image":       {with(perdure.Part{Type: perdure.PartImageFile, ImageFile: &perdure.ImageFile{ID: id}}), "parts/0/image_file/id", "is not the id of an image"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := c.message.CheckInput()

			var wrong *perdure.MessageError
			if c.field == "" {
				if err != nil {
					t.Errorf("got %v, want it accepted", err)
				}
			} else if !errors.Is(err, perdure.Invalid) || !errors.As(err, &wrong) || wrong.Field != c.field || !strings.Contains(wrong.Text, c.text) ||
				err.Error() != "invalid message: "+wrong.Field+": "+wrong.Text {
				t.Errorf("got %v, want Invalid for %s: %s", err, c.field, c.text)
			}
		})
	}
}
