//go:build contact

package contact

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/model/anthropic"
	"github.com/perdure/perdure/model/openai"
)

// reading is what a client made of a stream.
type reading struct {
	Text     string   `json:"text"`
	Thinking string   `json:"thinking"`
	Calls    []called `json:"calls"`
	Finish   string   `json:"finish"`
	Input    int64    `json:"input"`
	Output   int64    `json:"output"`
	Error    string   `json:"error"`
}

type called struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"` // JSON
}

// TestClients lets the clients of two providers read our recorded streams, and compares what they
// read with what our adapters read.
func TestClients(t *testing.T) {
	for _, wire := range []struct {
		name, module, streams string
		open                  func(t *testing.T, url string) model.Model
		differs               map[string]string // what a client reads differently, and why
	}{
		{"openai", "openai", "../../model/openai/testdata/streams/*.sse", openOpenAI, openaiDiffers()},
		{"anthropic", "@anthropic-ai/sdk", "../../model/anthropic/testdata/*.sse", openAnthropic, anthropicDiffers()},
	} {
		t.Run(wire.name, func(t *testing.T) {
			t.Parallel()
			_, version := module(t, wire.module)
			seen := newRow(wire.module, version)
			streams := recordedStreams(t, wire.streams)
			server := httptest.NewServer(replaying(streams))
			t.Cleanup(server.Close)
			names := slices.Sorted(maps.Keys(streams))
			theirs := readByClient(t, wire.name, server.URL, names)

			same := 0
			for _, name := range names {
				ours := readByAdapter(t, wire.open(t, server.URL+"/"+name))
				their := theirs[name]
				diff := cmp.Diff(their.comparable(), ours.comparable())
				why, known := wire.differs[name]
				switch {
				case diff == "" && known:
					t.Errorf("%s is no longer read differently (%s): remove it from the list", name, why)
				case diff != "" && !known:
					t.Errorf("%s (-client +adapter):\n%s\nclient: %+v\nadapter: %+v", name, diff, their, ours)
				case diff == "":
					same++
				default:
					t.Logf("%s is read differently: %s", name, why)
				}
			}
			seen.protocol, seen.tools, seen.kinds = "its stream parser, against the recorded streams", "none", "text, calls, finish, usage"
			seen.called = fmt.Sprintf("%d streams read alike, %d differently on purpose", same, len(wire.differs))
			seen.quirks = strings.Join(slices.Sorted(maps.Keys(wire.differs)), ", ") + " differ"
			seen.killed, seen.died = "no proxy", "nothing to kill"
		})
	}
}

// openaiDiffers returns the streams that the client of OpenAI reads differently, with the reason.
func openaiDiffers() map[string]string {
	return map[string]string{
		"deepseek-thinking": "reasoning_content is no field that the client joins",
		"ollama-calls":      "two calls have one index: the client joins their arguments, the adapter goes by their ids",
		"openai-twice":      "chunks come twice: the client adds all of them",
		"vllm-calls":        "choices is null once: the client gives up",
	}
}

// anthropicDiffers returns those of Anthropic's client.
func anthropicDiffers() map[string]string {
	return map[string]string{
		"duplicates":              "events come twice: the client gives up",
		"length_before_arguments": "the length limit cut a call off: the client has it without arguments, the adapter drops it",
		"length_in_a_call":        "likewise",
	}
}

// recordedStreams reads the recorded streams by name.
func recordedStreams(t *testing.T, pattern string) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("got %d streams of %s, %v", len(paths), pattern, err)
	}
	streams := map[string][]byte{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		streams[strings.TrimSuffix(filepath.Base(path), ".sse")] = text
	}
	return streams
}

// replaying answers every request below /NAME with that stream.
func replaying(streams map[string][]byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write(streams[name]) // a client that left needs nothing
	})
}

// readByClient runs the client of a provider.
func readByClient(t *testing.T, wire, url string, names []string) map[string]reading {
	t.Helper()
	command := exec.Command(nodeProgram(t), append([]string{"read.mjs", wire, url}, names...)...)
	var errs bytes.Buffer
	command.Dir, command.Stderr = npmFolder, &errs
	text, err := command.Output()
	if err != nil {
		t.Fatalf("read.mjs: %v; %s", err, errs.String())
	}
	var all map[string]reading
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatalf("read.mjs printed %q: %v", text, err)
	}
	return all
}

// readByAdapter reads a stream with our adapter.
func readByAdapter(t *testing.T, m model.Model) reading {
	t.Helper()
	a, err := model.Collect(m.Stream(t.Context(), model.Request{Messages: []perdure.Message{perdure.Text("go")}}), nil)
	if err != nil {
		return reading{Error: err.Error()}
	}
	r := reading{Text: a.Message.Text(), Thinking: a.Message.Thinking, Finish: string(a.Finish), Input: a.Usage.InputTokens, Output: a.Usage.OutputTokens}
	for _, c := range a.Message.Calls() {
		r.Calls = append(r.Calls, called{c.Name, string(c.Arguments)})
	}
	return r
}

func openOpenAI(t *testing.T, url string) model.Model {
	t.Helper()
	m, err := openai.New(openai.Config{Name: "some-model", BaseURL: url})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func openAnthropic(t *testing.T, url string) model.Model {
	t.Helper()
	m, err := anthropic.New(anthropic.Config{Name: "some-model", Key: "none", BaseURL: url})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// comparable returns the reading in one form: with our words for the finish, with arguments as
// values, and of an error only that there is one, since the texts are those of the programs.
func (r reading) comparable() map[string]any {
	if r.Error != "" {
		return map[string]any{"error": true}
	}
	finish := map[string]model.Finish{
		"stop": model.FinishStop, "end_turn": model.FinishStop, "stop_sequence": model.FinishStop, "tool_calls": model.FinishCalls,
		"tool_use": model.FinishCalls, "length": model.FinishLength, "max_tokens": model.FinishLength, "content_filter": model.FinishRefusal,
		"refusal": model.FinishRefusal,
	}[r.Finish]
	var calls []any
	for _, c := range r.Calls {
		var value any = c.Arguments
		if json.Unmarshal([]byte(c.Arguments), &value) != nil {
			value = "no JSON: " + c.Arguments
		}
		calls = append(calls, []any{c.Name, value})
	}
	return map[string]any{"text": r.Text, "thinking": r.Thinking, "calls": calls, "finish": finish, "input": r.Input, "output": r.Output}
}
