package sessionport

import (
	"context"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// maxTitleBytes bounds a title.
const maxTitleBytes = 512

// bytesPerToken is how many bytes the estimate takes for a token.
const bytesPerToken = 4

// sessions is the session itself.
type sessions struct {
	binding
	asked func(context.Context, perdure.SessionID) (model.Request, *perdure.Session, error)
}

var _ tool.Sessions = sessions{}

// SetTitle sets the title: an event, and the session's row, in one commit. The title that stands already makes no event.
func (p sessions) SetTitle(ctx context.Context, title string) error {
	if !word(title, maxTitleBytes) {
		return fmt.Errorf("set title: %w: it has %d bytes, give 1 to %d of UTF-8", perdure.Invalid, len(title), maxTitleBytes)
	}
	err := p.write(ctx, func(tx store.Tx, row store.Session) error {
		if row.Title == title {
			return nil
		}
		if err := p.tell(tx, perdure.SessionUpdated{Title: title}); err != nil {
			return err
		}
		return tx.SaveSession(p.session, title, row.Status)
	})
	if err != nil {
		return fmt.Errorf("set title: %w", err)
	}
	return nil
}

// Title returns the title as of the last commit.
func (p sessions) Title(ctx context.Context) (title string, err error) {
	err = p.store.View(ctx, func(r store.Reader) error {
		row, err := r.Session(p.session)
		title = row.Title
		return err
	})
	return title, err
}

// Context says what the model is asked, section by section. Unavailable: nobody here knows.
func (p sessions) Context(ctx context.Context) (tool.ContextReport, error) {
	if p.asked == nil {
		return tool.ContextReport{}, fmt.Errorf("context report: %w: the host opens this session without its model", perdure.Unavailable)
	}
	req, s, err := p.asked(ctx, p.session)
	if err != nil {
		return tool.ContextReport{}, fmt.Errorf("context report: %w", err)
	}
	return Report(req, s), nil
}

// The sections of a report, in their order.
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

// Report measures a request that was built from a session's fold. All that the request holds is in one section: what a
// compaction left in the place of messages is compacted, and a result that it masked counts as it is shown.
func Report(req model.Request, s *perdure.Session) tool.ContextReport {
	found := make([]tool.ContextSection, sectionCount)
	for i, name := range []string{"system_prompt", "tools", "user", "agent", "tool_results", "notifications", "compacted"} {
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

// sectionOf is the section of a message.
func sectionOf(m perdure.Message, c perdure.Compaction) int {
	if m.ID != "" && m.ID == c.Notice.ID {
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

// sizeOf is how many bytes of content a message has.
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
