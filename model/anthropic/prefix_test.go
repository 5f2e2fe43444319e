package anthropic_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/model/anthropic"
)

// TestPrefix: an answer to be continued is sent as the last turn, without white space at its end
// and without thinking, since the API refuses both (TN20). Nobody is asked for it who did not say
// that it can.
func TestPrefix(t *testing.T) {
	t.Parallel()
	var got struct {
		Messages []struct {
			Role    string
			Content []struct{ Type, Text string }
		}
		Thinking any
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			t.Error(err)
		}
		w.WriteHeader(http.StatusTeapot) // what is asked counts here, not what is answered
	}))
	defer server.Close()
	m, err := anthropic.New(anthropic.Config{Name: "claude-test", BaseURL: server.URL, HTTP: server.Client(), ThinkingTokens: 2048, Prefill: true})
	if err != nil {
		t.Fatal(err)
	}

	_, err = model.Collect(m.Stream(t.Context(), model.Request{Messages: []perdure.Message{perdure.Text("Where?")}, Prefix: "In the second \n"}), nil)

	if err == nil || len(got.Messages) != 2 || got.Messages[1].Role != "assistant" || len(got.Messages[1].Content) != 1 ||
		got.Messages[1].Content[0].Text != "In the second" || got.Thinking != nil {
		t.Errorf("got %+v, %v", got, err)
	}
	plain, err := anthropic.New(anthropic.Config{Name: "claude-test"})
	if err != nil || plain.ContinuesFrom("claude-test") || !m.ContinuesFrom("claude-test") {
		t.Errorf("without Prefill: %t, with: %t, %v", plain.ContinuesFrom("claude-test"), m.ContinuesFrom("claude-test"), err)
	}
}
