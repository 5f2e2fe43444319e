//go:build contact

package contact

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What the mock says, in the two steps of a turn.
const (
	firstWords = "I shall write it down."
	lastWords  = "It is written down, once and for all."
)

// cuts says after how many events a connection breaks, once for each number: in the step that calls
// the tool, and in the last one.
type cuts struct{ first, last []int }

// disconnects returns where the connections break: before the text and in it, between text and
// call, in the arguments, and before the finish.
func disconnects() map[string][]cuts {
	return map[string][]cuts{
		"openai":    {{[]int{1, 3}, []int{1, 4}}, {[]int{5, 6}, []int{2, 6}}, {[]int{7, 9}, []int{3, 5}}, {[]int{8, 10}, []int{4, 6}}},
		"anthropic": {{[]int{1, 4}, []int{1, 3}}, {[]int{6, 7}, []int{2, 5}}, {[]int{9, 12}, []int{6, 7}}, {[]int{11, 13}, []int{4, 8}}},
	}
}

// TestDisconnects lets a mock of providers break its connections at many places of a two-step tool
// loop, on both wires: the turn ends, the tool ran once, and no text is doubled.
func TestDisconnects(t *testing.T) {
	_, version := module(t, "@copilotkit/aimock")
	for wire, all := range disconnects() {
		t.Run(wire, func(t *testing.T) {
			t.Parallel()
			seen := newRow("@copilotkit/aimock as "+wire, version)
			seen.protocol, seen.tools, seen.kinds = "streams that break off", "bash", "text, calls"
			seen.killed, seen.died = "no proxy", "its connections break instead"
			ends := 0
			for _, at := range all {
				if t.Run(fmt.Sprint(at), func(t *testing.T) { tryDisconnects(t, wire, at) }) {
					ends++
				}
			}
			seen.called = fmt.Sprintf("%d of %d turns end as expected", ends, len(all))
			seen.quirks = "it destroys the socket in the middle of a stream"
		})
	}
}

// tryDisconnects runs one turn. Each step of it breaks off after each of its cuts, and is answered
// completely afterwards.
func tryDisconnects(t *testing.T, wire string, at cuts) {
	h := newHome(t)
	url := startMock(t, h, disconnecting(at))
	base := url + "/v1"
	if wire == "anthropic" {
		base = url
	}

	ran := h.perdure("run", "--model", wire+":some-model", "--base-url", base, "--allow-shell", "--workspace", h.work, "go")

	if ran.code != 0 || strings.Count(ran.stdout, lastWords) != 1 {
		t.Errorf("run: %s", ran)
	}
	if effect, err := os.ReadFile(filepath.Join(h.work, "effects")); string(effect) != "once\n" {
		t.Errorf("the effects are %q, %v", effect, err)
	}
	if states := h.callStates(); !slices.Equal(states, []string{"settled"}) {
		t.Errorf("the calls are %v", states)
	}
	if texts := h.answers(); !slices.Equal(texts, []string{firstWords, lastWords}) {
		t.Errorf("the answers are %q", texts)
	}
	asked, broken := requestsOf(t, url)
	if want := len(at.first) + len(at.last); broken != want || asked != want+2 {
		t.Errorf("the mock was asked %d times and broke off %d times, want %d and %d", asked, broken, want+2, want)
	}
}

// disconnecting returns the fixtures of the mock.
func disconnecting(at cuts) map[string]any {
	command := map[string]any{"name": "bash", "arguments": map[string]any{"command": "echo once >> effects"}}
	answers := []map[string]any{
		{"content": firstWords, "toolCalls": []any{command}},
		{"content": lastWords},
	}
	var fixtures []any
	for step, answer := range answers {
		breaks := [][]int{at.first, at.last}[step]
		for n := range len(breaks) + 1 {
			fixture := map[string]any{"match": map[string]any{"hasToolResult": step == 1, "sequenceIndex": n}, "response": answer, "chunkSize": 8}
			if n < len(breaks) {
				fixture["truncateAfterChunks"] = breaks[n]
			}
			fixtures = append(fixtures, fixture)
		}
	}
	return map[string]any{"fixtures": fixtures}
}

// startMock starts the mock with fixtures, and returns its URL.
func startMock(t *testing.T, h *home, fixtures map[string]any) string {
	t.Helper()
	text, err := json.Marshal(fixtures)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(h.dir, "fixtures.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	mock := exec.Command(nodeProgram(t), "aimock.mjs", path)
	mock.Dir, mock.Stderr = npmFolder, os.Stderr
	in, err := mock.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := mock.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := mock.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close() // it may have ended
		_ = mock.Wait()
	})
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the mock printed no URL: %v", err)
	}
	return strings.TrimSpace(url)
}

// requestsOf returns how many requests for answers the mock got, and how many of them it broke off.
func requestsOf(t *testing.T, url string) (asked, broken int) {
	t.Helper()
	answer, err := http.Get(url + "/__aimock/journal")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	var entries []struct {
		Method   string `json:"method"`
		Response struct {
			Interrupted bool `json:"interrupted"`
		} `json:"response"`
	}
	if err := json.Unmarshal(text, &entries); err != nil {
		t.Fatalf("the journal of the mock: %v; %.300s", err, text)
	}
	for _, e := range entries {
		if e.Method == http.MethodPost {
			asked++
		}
		if e.Response.Interrupted {
			broken++
		}
	}
	return asked, broken
}

// answers returns the texts of the model's complete answers in the journal of the last session.
func (h *home) answers() (texts []string) {
	h.t.Helper()
	listed := h.perdure("event", "list", "last", "--type", "output.message.completed", "-o", "jsonl")
	for entry := range bytes.Lines([]byte(listed.stdout)) {
		var e struct {
			Data struct {
				Interrupted bool `json:"interrupted"`
				Message     struct {
					Parts []struct {
						Text string `json:"text"`
					} `json:"parts"`
				} `json:"message"`
			} `json:"data"`
		}
		if err := json.Unmarshal(entry, &e); err != nil {
			h.t.Fatalf("event list: %v; %s", err, listed)
		}
		text := ""
		for _, part := range e.Data.Message.Parts {
			text += part.Text
		}
		if e.Data.Interrupted {
			text = "interrupted: " + text
		}
		texts = append(texts, text)
	}
	return texts
}
