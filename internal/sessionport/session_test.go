package sessionport_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/sessionport"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// TestSetTitle: the title is an event and the row, in one commit and in order with other writes.
func TestSetTitle(t *testing.T) {
	t.Parallel()
	eachStore(t, func(w *world) {
		id := w.session()
		port, ctx := w.ports(id).Session, w.Context()

		for _, title := range []string{"second", "second", "third"} {
			w.ok(port.SetTitle(ctx, title))
		}

		got, err := port.Title(ctx)
		w.ok(err)
		w.same("title", got, "third")
		w.same("events", w.told(id), []string{"session.updated", "session.updated"})
		w.same("fold", w.folded(id).Title, "third")
		for _, title := range []string{"", "\xff", strings.Repeat("x", 513)} {
			w.refused(port.SetTitle(ctx, title), perdure.Invalid)
		}
		w.ok(port.SetTitle(ctx, strings.Repeat("x", 512)))
		w.refused(w.ports("session_nobody").Session.SetTitle(ctx, "x"), perdure.NotFound)
		_, err = w.ports("session_nobody").Session.Title(ctx)
		w.refused(err, perdure.NotFound)
	})
}

// TestSetTitleTogether: after concurrent calls the row has the title that the journal has last.
func TestSetTitleTogether(t *testing.T) {
	t.Parallel()
	eachStore(t, func(w *world) {
		id := w.session()
		var all sync.WaitGroup
		for i := range 16 {
			all.Go(func() {
				if err := w.ports(id).Session.SetTitle(w.Context(), strings.Repeat("x", i+1)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()

		got, err := w.ports(id).Session.Title(w.Context())
		w.ok(err)
		w.same("title", got, w.folded(id).Title)
		w.same("events", len(w.told(id)), 16)
	})
}

// folded is the fold of a session's journal.
func (w *world) folded(id perdure.SessionID) *perdure.Session {
	w.Helper()
	s := perdure.NewSession(id)
	w.ok(w.View(w.Context(), func(r store.Reader) error {
		events, err := r.Journal().Events(id, 0, 0)
		for _, e := range events {
			if err == nil {
				err = s.Apply(e)
			}
		}
		return err
	}))
	return s
}

func TestContextReport(t *testing.T) {
	t.Parallel()
	eachStore(t, func(w *world) {
		id := w.session()
		notice := perdure.Message{ID: "message_cut", Role: perdure.RoleNotification, Parts: []perdure.Part{{Type: perdure.PartText, Text: "3 earlier messages"}}}
		s := perdure.NewSession(id)
		s.Compacted.Notification, s.Agent.MaxContextTokens = notice, 1000
		req := model.Request{
			System: "be kind",
			Tools:  []model.Tool{{Name: "echo", Description: "says it again", Parameters: []byte(`{}`)}},
			Messages: []perdure.Message{
				perdure.Text("hello"),
				notice,
				{Role: perdure.RoleAgent, Thinking: "hm", Parts: []perdure.Part{
					{Type: perdure.PartText, Text: "I say"}, {Type: perdure.PartToolCall, Call: &perdure.ToolCall{Name: "echo", Arguments: []byte(`{"a":1}`)}},
				}},
				{Role: perdure.RoleToolResult, Parts: []perdure.Part{{Type: perdure.PartToolResult, Result: &perdure.ToolResult{
					Result: []byte(`"hello"`), Images: []perdure.Image{{Base64: "SGVsbG8="}},
				}}}},
				{Role: perdure.RoleUser, Parts: []perdure.Part{{Type: perdure.PartImage, Image: &perdure.Image{Base64: "SGVsbG8="}}}},
				{ID: "message_other", Role: perdure.RoleNotification, Parts: []perdure.Part{{Type: perdure.PartText, Text: "done"}}},
			},
		}
		ports := sessionport.New(sessionport.Config{Store: w.Store, NextRequest: func(_ context.Context, of perdure.SessionID) (model.Request, *perdure.Session, error) {
			w.same("session", of, id)
			return req, s, nil
		}})(id, tool.Call{})

		got, err := ports.Session.Context(w.Context())
		w.ok(err)

		w.same("report", got, tool.ContextReport{Limit: 1000, Tokens: 2 + 5 + 4 + 5 + 4 + 1 + 5, Sections: []tool.ContextSection{
			{Name: "system_prompt", Items: 1, Bytes: 7, Tokens: 2},
			{Name: "tools", Items: 1, Bytes: 19, Tokens: 5},
			{Name: "user", Items: 2, Bytes: 13, Tokens: 4},
			{Name: "agent", Items: 1, Bytes: 18, Tokens: 5},
			{Name: "tool_results", Items: 1, Bytes: 15, Tokens: 4},
			{Name: "notifications", Items: 1, Bytes: 4, Tokens: 1},
			{Name: "compacted", Items: 1, Bytes: 18, Tokens: 5},
		}})
		_, err = w.ports(id).Session.Context(w.Context())
		w.refused(err, perdure.Unavailable)
	})
}
