package session_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/session"
	"github.com/perdure/perdure/tool/tooltest"
)

var update = flag.Bool("update", false, "rewrite the golden file")

// conversation is the port: messages with the sequence numbers 1, 2, 3 and so on.
type conversation []perdure.Message

func (c conversation) Messages(_ context.Context, after int64, limit int) (tool.MessagePage, error) {
	page := tool.MessagePage{Source: int64(len(c))}
	for i := after; i < int64(len(c)) && len(page.Messages) < limit; i++ {
		page.Messages = append(page.Messages, tool.NumberedMessage{Seq: i + 1, Message: c[i]})
	}
	if last := after + int64(len(page.Messages)); last < int64(len(c)) {
		page.Source, page.More = last, true
	}
	return page, nil
}

type foundMessages struct {
	Messages []struct {
		Sequence int64
		Role     perdure.Role
		Text     string
	}
	Searched int
	Omitted  int `json:"left_out"`
}

func search(t *testing.T, args string, port tool.Messages) (found foundMessages, text string) {
	t.Helper()
	call := tool.Call{Tool: "search_messages", Args: []byte(args)}
	result := execute(t, []tool.Tool{session.SearchMessages()}, call, tool.Env{Ports: tool.Ports{Messages: port}})
	if !result.IsError() {
		if err := json.Unmarshal(result.Result, &found); err != nil {
			t.Fatal(err)
		}
	}
	return found, string(result.Result) + result.Error
}

func TestSearchMessages(t *testing.T) {
	t.Parallel()
	said := conversation{
		perdure.Text("Our cat is called Minka."),
		{Role: perdure.RoleAgent, Parts: []perdure.Part{{Type: perdure.PartToolCall, Call: &perdure.ToolCall{Name: "echo", Arguments: []byte(`{"message":"MINKA sleeps"}`)}}}},
		{Role: perdure.RoleToolResult, Parts: []perdure.Part{{Type: perdure.PartToolResult, Result: &perdure.ToolResult{Result: []byte(`{"echoed":"minka sleeps"}`)}}}},
		{Role: perdure.RoleToolResult, Parts: []perdure.Part{{Type: perdure.PartToolResult, Result: &perdure.ToolResult{Error: "no minka here"}}}},
		perdure.Text("Thank you."),
		{Role: perdure.RoleAgent, Parts: []perdure.Part{{Type: perdure.PartToolCall, Call: &perdure.ToolCall{ID: "call_9", Name: "search_messages", Arguments: []byte(`{"query":"minka"}`)}}}},
		{Role: perdure.RoleToolResult, Parts: []perdure.Part{{Type: perdure.PartToolResult, Result: &perdure.ToolResult{CallID: "call_9", Result: []byte(`{"messages":[{"text":"minka"}]}`)}}}},
	}

	found, text := search(t, `{"query":"minka","limit":3}`, said)

	if len(found.Messages) != 3 || found.Searched != 7 || found.Omitted != 1 || found.Messages[0].Sequence != 4 || found.Messages[2].Sequence != 2 {
		t.Errorf("got %s", text)
	}
	if found.Messages[1].Role != perdure.RoleToolResult || !strings.Contains(found.Messages[1].Text, "minka sleeps") {
		t.Errorf("got %s", text)
	}
	if found, text := search(t, `{"query":"dog","limit":3}`, said); len(found.Messages) != 0 || !strings.Contains(text, `"messages":[]`) {
		t.Errorf("got %s", text)
	}
	if _, text := search(t, `{"query":"dog","limit":3}`, nil); !strings.Contains(text, "Message retriever not available in this context.") {
		t.Errorf("got %s", text)
	}
}

// TestSearchManyMessages: more messages than a page, and letters that have another length in lower
// case.
func TestSearchManyMessages(t *testing.T) {
	t.Parallel()
	var said conversation
	for i := range 2500 {
		said = append(said, perdure.Text(fmt.Sprintf("%s needle %d %s", strings.Repeat("İ", 300), i, strings.Repeat("é", 900))))
	}

	found, text := search(t, `{"query":"NEEDLE","limit":50}`, said)

	if len(found.Messages) != 50 || found.Searched != 2500 || found.Omitted != 2450 || found.Messages[0].Sequence != 2500 || found.Messages[49].Sequence != 2451 {
		t.Errorf("got %.300s", text)
	}
	for _, m := range found.Messages {
		if !utf8.ValidString(m.Text) || len(m.Text) > 700 || !strings.HasPrefix(m.Text, "… ") || !strings.Contains(m.Text, "needle") {
			t.Errorf("got %q", m.Text)
		}
	}
	if len(text) > tool.ResultLimit {
		t.Errorf("%d bytes, which would be cut", len(text))
	}
}

// TestMessageAndImageTexts compares all that a model reads of the two tools with testdata.
func TestMessageAndImageTexts(t *testing.T) {
	t.Parallel()
	tooltest.Golden(t, "messages.txtar", tooltest.Definitions(t, session.SearchMessages(), session.ViewImage()), *update)
}
