package sessionport

import (
	"context"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// bytesPerToken is the number of bytes that the estimate counts as one token.
const bytesPerToken = 4

// sessions implements tool.Sessions for the session itself.
type sessions struct {
	binding
	nextRequest func(context.Context, perdure.SessionID) (model.Request, *perdure.Session, error)
}

var _ tool.Sessions = sessions{}

// SetTitle sets the title. The event and the session's row are written in one commit. Setting the
// current title again appends no event.
func (p sessions) SetTitle(ctx context.Context, title string) error {
	if err := perdure.CheckTitle(title); err != nil {
		return fmt.Errorf("set title: %w", err)
	}
	err := p.write(ctx, func(tx store.Tx, row store.Session) error {
		if row.Title == title {
			return nil
		}
		if err := p.appendFact(tx, perdure.SessionUpdated{Title: title}); err != nil {
			return err
		}
		return tx.Sessions().Update(p.session, title, row.Status)
	})
	if err != nil {
		return fmt.Errorf("set title: %w", err)
	}
	return nil
}

// Title returns the title as of the last commit.
func (p sessions) Title(ctx context.Context) (title string, err error) {
	err = p.store.View(ctx, func(r store.Reader) error {
		row, err := r.Sessions().Get(p.session)
		title = row.Title
		return err
	})
	return title, err
}

// Context reports the size of the next model request by section. Unavailable: the host has not
// configured a model for this session.
func (p sessions) Context(ctx context.Context) (tool.ContextReport, error) {
	if p.nextRequest == nil {
		return tool.ContextReport{}, fmt.Errorf("context report: %w: the host opens this session without its model",
			perdure.Unavailable)
	}
	req, s, err := p.nextRequest(ctx, p.session)
	if err != nil {
		return tool.ContextReport{}, fmt.Errorf("context report: %w", err)
	}
	return Report(req, s), nil
}

// Sections of a report, in order.
const (
	sectionSystem = iota
	sectionTools
	sectionUser
	sectionAgent
	sectionResults
	sectionNotices
	sectionCompacted
	sectionCount
)

// Report measures a request that was built from a session's fold. Every byte of content is counted
// in exactly one section. The notice that a compaction put in place of messages is counted as
// compacted, and a result that compaction masked is counted with its masked content.
func Report(req model.Request, s *perdure.Session) tool.ContextReport {
	found := make([]tool.ContextSection, sectionCount)
	for i, name := range []string{"system_prompt", "tools", "user", "agent", "tool_results", "notifications",
		"compacted"} {
		found[i].Name = name
	}
	if req.System != "" {
		found[sectionSystem].Items, found[sectionSystem].Bytes = 1, len(req.System)
	}
	for _, t := range req.Tools {
		found[sectionTools].Items++
		found[sectionTools].Bytes += len(t.Name) + len(t.Description) + len(t.Parameters)
	}
	for _, m := range req.Messages {
		section := &found[sectionOf(m, s.Compacted)]
		section.Items++
		section.Bytes += sizeOf(m)
	}
	report := tool.ContextReport{Sections: found, Limit: s.Agent.MaxContextTokens}
	for i := range found {
		found[i].Tokens = (found[i].Bytes + bytesPerToken - 1) / bytesPerToken
		report.Tokens += found[i].Tokens
	}
	return report
}

// sectionOf returns the section of a message.
func sectionOf(m perdure.Message, c perdure.Compaction) int {
	if m.ID != "" && m.ID == c.Notification.ID {
		return sectionCompacted
	}
	switch m.Role {
	case perdure.RoleAgent:
		return sectionAgent
	case perdure.RoleToolResult:
		return sectionResults
	case perdure.RoleNotification:
		return sectionNotices
	}
	return sectionUser
}

// sizeOf returns the number of bytes of content in a message.
func sizeOf(m perdure.Message) int {
	n := len(m.Thinking)
	for _, p := range m.Parts {
		n += len(p.Text)
		if p.Image != nil {
			n += len(p.Image.Base64)
		}
		if p.Call != nil {
			n += len(p.Call.Name) + len(p.Call.Arguments)
		}
		if p.Result != nil {
			n += len(p.Result.Result)
			for _, image := range p.Result.Images {
				n += len(image.Base64)
			}
		}
	}
	return n
}
