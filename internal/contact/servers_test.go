//go:build contact

package contact

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	_ "image/jpeg"
	_ "image/png"
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestServers runs MCP servers of others through mcp.json of the program, with a model that calls
// their tools, and behind the proxy, which is killed in a call.
func TestServers(t *testing.T) {
	for _, p := range peers() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			tryPeer(t, p)
		})
	}
}

// tryPeer tries one server in every way.
func tryPeer(t *testing.T, p peer) {
	t.Helper()
	_, version := module(t, p.module)
	seen := newRow(p.module, version)
	t.Run("mcp.json", func(t *testing.T) { throughConfiguration(t, p, seen) })
	t.Run("proxy", func(t *testing.T) { behindProxy(t, p, seen) })
	t.Run("death", func(t *testing.T) { diesInCall(t, p, seen) })
}

// throughConfiguration lists the tools with mcp test, and lets a model call some of them.
func throughConfiguration(t *testing.T, p peer, seen *row) {
	h := newHome(t)
	rec := newRecording(t, h)
	words, env := rec.command(p.command(t, h))
	h.server(p.name, map[string]any{"command": words[0], "args": words[1:], "env": p.environment(h, env)})

	tested := h.perdure("mcp", "test", "--name", p.name)

	f := factsOf(rec.lines())
	seen.protocol, seen.quirks, seen.tools = protocolOf(tested.stderr), f.quirks(), fmt.Sprint(len(f.names()))
	if tested.code != 0 {
		t.Fatalf("mcp test: %s", tested)
	}
	for name := range f.names() {
		if !strings.Contains(tested.stdout, p.modelName(name)+" ") {
			t.Errorf("mcp test does not list %s: %s", name, tested.stdout)
		}
	}

	calls := p.calls(h)
	var asked []call
	for _, c := range calls {
		asked = append(asked, call{p.modelName(c.tool), c.args})
	}
	model := newChatServer(t, nil, asked...)
	ran := h.perdure("run", "--model", "openai:m", "--base-url", model.url, "--capability", "mcp_"+p.name, "go")

	f = factsOf(rec.lines())
	seen.kinds, seen.quirks = strings.Join(f.kinds, ", "), f.quirks()
	if ran.code != 0 || !strings.Contains(ran.stdout, "All is done.") {
		t.Errorf("run: %s", ran)
	}
	right, loads, end := 0, len(model.loads), model.last(t)
	for i, c := range calls {
		if why := c.wrong(end.answer(loads + i)); why != "" {
			t.Errorf("call %d, %s: %s", i, c.label(), why)
			continue
		}
		right++
	}
	seen.called = fmt.Sprintf("%d of %d as expected", right, len(calls))
	if states := h.callStates(); len(states) != loads+len(calls) || slices.ContainsFunc(states, func(s string) bool { return s != "settled" }) {
		t.Errorf("the calls are %v", states)
	}
	checkShown(t, p, f, end)
	for i, load := range model.loads {
		text, _ := end.answer(i)
		for name, listed := range f.names() {
			if p.modelName(name) == load.args.(map[string]string)["name"] {
				checkLoaded(t, listed, text)
			}
		}
	}
	if loads > 0 {
		seen.quirks += "; so many tools that schemas are loaded on demand"
	}
}

// wrong says what is wrong with the result of a call as the model reads it; empty: nothing.
func (e expected) wrong(text string, pictures []picture) string {
	kinds := []string{}
	for _, shown := range pictures {
		kinds = append(kinds, shown.kind)
		if _, format, err := image.DecodeConfig(bytes.NewReader(shown.bytes)); err != nil || "image/"+format != shown.kind {
			return fmt.Sprintf("the picture of %d bytes is called %s and is %s, %v", len(shown.bytes), shown.kind, format, err)
		}
	}
	switch {
	case !strings.Contains(text, e.text):
		return fmt.Sprintf("%q is not in %.300q", e.text, text)
	case e.picture != "" && !slices.Contains(kinds, e.picture):
		return fmt.Sprintf("the model sees no picture %s but %q, and %.300q", e.picture, kinds, text)
	case e.picture != "" && strings.Contains(text, "iVBOR"):
		return "the picture is also in the text"
	}
	return ""
}

// checkShown compares what the model reads of each tool with what its server lists: all tools, with
// all their properties.
func checkShown(t *testing.T, p peer, f facts, request chatRequest) {
	t.Helper()
	shown := map[string]map[string]json.RawMessage{}
	for _, tool := range request.Tools {
		shown[tool.Function.Name] = tool.Function.Parameters.Properties
	}
	for name, listed := range f.names() {
		properties, ok := shown[p.modelName(name)]
		if !ok {
			t.Errorf("the model does not see the tool %s", name)
		}
		if !ok || request.deferred(p.modelName(name)) {
			continue
		}
		want, got := slices.Sorted(maps.Keys(listed.InputSchema.Properties)), slices.Sorted(maps.Keys(properties))
		if !slices.Equal(want, got) {
			t.Errorf("of %s the model sees the properties %q, and the server lists %q", name, got, want)
		}
	}
}

// checkLoaded compares a schema that the model loaded with what the server lists.
func checkLoaded(t *testing.T, listed definition, text string) {
	t.Helper()
	for property := range listed.InputSchema.Properties {
		if !strings.Contains(text, fmt.Sprintf("%q:", property)) {
			t.Errorf("the loaded schema of %s has no %s: %.500s", listed.Name, property, text)
		}
	}
}

// protocolOf returns the protocol version that mcp test prints.
func protocolOf(said string) string {
	_, version, _ := strings.Cut(said, ": protocol ")
	version, _, _ = strings.Cut(version, ",")
	return version
}

// behindProxy kills the proxy after the server has done the work of a call and before its answer
// arrived. The next proxy has the result, and the server was called once.
func behindProxy(t *testing.T, p peer, seen *row) {
	h := newHome(t)
	calls := p.calls(h)
	rec := newRecording(t, h)
	words, env := rec.command(p.command(t, h))
	env = p.environment(h, env)
	c := h.startProxy(words, env)
	for _, before := range calls[:len(calls)-1] {
		text := resultText(t, c.end(c.begin(before.tool, before.args)))
		if !strings.Contains(text, before.text) || before.picture != "" && !strings.Contains(text, `"mimeType":"`+before.picture) {
			t.Errorf("%s comes to %.300s", before.label(), text)
		}
	}
	last := calls[len(calls)-1]
	called := rec.calls(last.tool)

	rec.hold()
	id := c.begin(last.tool, last.args)
	rec.await("the answer of "+last.label(), func(l line) bool { return l.From == fromRecorder && l.Text == "held" })
	c.kill()
	c = h.startProxy(words, env)
	c.ask("tools/list", "")
	rec.release()

	done := c.end(id)
	text := resultText(t, done)
	if done["status"] != "completed" || !strings.Contains(text, last.text) {
		t.Errorf("%s is %v, %.300s", last.label(), done["status"], text)
	}
	if n := rec.calls(last.tool) - called; n != 1 {
		t.Errorf("the server was called %d times", n)
	}
	c.leave()
	if !t.Failed() {
		seen.killed = "the next proxy has the result of " + last.tool + "; one call"
	}
}

// diesInCall kills the server itself after it has done the work of a call and before its answer
// arrived: the outcome is unknown, and the next call has a server again.
func diesInCall(t *testing.T, p peer, seen *row) {
	h := newHome(t)
	rec := newRecording(t, h)
	words, env := rec.command(p.command(t, h))
	h.server(p.name, map[string]any{"command": words[0], "args": words[1:], "env": p.environment(h, env)})
	calls := p.calls(h)
	last, next := calls[len(calls)-1], calls[0]
	model := newChatServer(t, nil, call{p.modelName(last.tool), last.args}, call{p.modelName(next.tool), next.args})

	rec.hold()
	wait := h.start("run", "--model", "openai:m", "--base-url", model.url, "--capability", "mcp_"+p.name, "go")
	rec.await("the answer of "+last.label(), func(l line) bool { return l.From == fromRecorder && l.Text == "held" })
	rec.kill()
	rec.release()
	ran := wait()

	loads, end := len(model.loads), model.last(t)
	states := h.callStates()
	if want := append(slices.Repeat([]string{"settled"}, loads), "unknown", "settled"); !slices.Equal(states, want) {
		t.Errorf("the calls are %v, want %v; %s", states, want, ran)
	}
	if why := next.wrong(end.answer(loads + 1)); why != "" {
		t.Errorf("the next call, %s: %s", next.label(), why)
	}
	if n := rec.calls(last.tool); last.tool != next.tool && n != 1 {
		t.Errorf("the server was called %d times", n)
	}
	if !t.Failed() {
		seen.died = "the outcome of " + last.tool + " is unknown; the next call has a new server"
	}
}

// resultText returns the result of a task as JSON.
func resultText(t *testing.T, task map[string]any) string {
	t.Helper()
	text, err := json.Marshal(task["result"])
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
