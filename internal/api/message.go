package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// newMessage is the body of a request that sends a message.
type newMessage struct {
	Content []newPart         `json:"content" minItems:"1"`
	Mode    perdure.Mode      `json:"mode,omitempty" enum:"steer,queue,interrupt,reject" doc:"What the message does to a running turn; default steer."`
	Model   string            `json:"model,omitempty"`
	ID      perdure.MessageID `json:"id,omitempty" doc:"The id of the message, for callers that generate ids. The same id with the same content is one message."`
	// Metadata is for the host; the model does not read it.
	Metadata map[string]string `json:"metadata,omitempty" doc:"What tools, hooks and the routing policy learn about this request, at most 16 KiB; the model does not read it."`
}

// newPart is one part of a message: a text, an image, or a reference to an image stored with the
// session.
type newPart struct {
	Type      perdure.PartType   `json:"type" enum:"text,image,image_file"`
	Text      string             `json:"text,omitempty"`
	Image     *perdure.Image     `json:"image,omitempty"`
	ImageFile *perdure.ImageFile `json:"image_file,omitempty" doc:"An image of this session, as POST …/images stored it or a tool made it."`
	Untrusted bool               `json:"untrusted,omitempty" doc:"The text comes from a source that must not give instructions, such as a mail or the body of a webhook."`
}

// message is one entry of a conversation as shown to callers.
type message struct {
	ID      perdure.MessageID `json:"id" doc:"Empty for a tool result, which is identified by its call."`
	Role    perdure.Role      `json:"role" enum:"user,agent,tool_result,notification"`
	Content []perdure.Part    `json:"content"`
	Seq     int64             `json:"seq,omitempty" doc:"The seq of its event; absent while it is being written."`
	Status  string            `json:"status" enum:"complete,partial"`
}

// accepted is the response to a message. The message is durable; the answer of the model arrives as
// events.
type accepted struct {
	Body struct {
		MessageID perdure.MessageID `json:"message_id"`
		Seq       int64             `json:"seq" doc:"The seq of the event that recorded the message. The answer follows it."`
		Hold      *engine.Hold      `json:"hold,omitempty" doc:"Why the message waits for a person to act; absent if it is processed."`
	}
}

func (a messageHandlers) register() {
	example := newMessage{Content: []newPart{{Type: perdure.PartText, Text: "What can you do?"}}}
	write(a.API, operation{
		id: "send-message", path: "/v1/sessions/{id}/messages", policy: writes, summary: "Send a message",
		status: http.StatusAccepted, errors: []int{http.StatusNotFound}, maxBody: a.cfg.Limits.Message,
	}, body[newMessage]{example: example}, a.sendMessage)
	read(a.API, operation{
		id: "list-messages", path: "/v1/sessions/{id}/messages", policy: reads, summary: "List the messages of a session", errors: []int{http.StatusNotFound},
	}, a.listMessages)
}

func (a messageHandlers) sendMessage(ctx context.Context, in *OfSession, body newMessage) (*accepted, error) {
	m := perdure.Message{ID: body.ID, Role: perdure.RoleUser, Mode: body.Mode, Model: body.Model, Metadata: body.Metadata}
	for _, p := range body.Content {
		m.Parts = append(m.Parts, perdure.Part{Type: p.Type, Text: p.Text, Image: p.Image, ImageFile: p.ImageFile, Untrusted: p.Untrusted})
	}
	if m.ID == "" {
		m.ID = newID[perdure.MessageID](ctx)
	}
	sent, err := a.cfg.Engine.Send(ctx, in.ID, m)
	if err != nil {
		return nil, wrongMessage(err)
	}
	out := &accepted{}
	out.Body.MessageID, out.Body.Seq, out.Body.Hold = sent.ID, sent.Seq, sent.Hold
	return out, nil
}

// wrongMessage names the invalid field of a message as the body calls it.
func wrongMessage(err error) error {
	var fault *perdure.MessageError
	if !errors.As(err, &fault) {
		return err
	}
	field := "/" + fault.Field
	if part, ok := strings.CutPrefix(fault.Field, "parts"); ok {
		field = "/content" + part
	}
	return invalid(field, "%s", fault.Text)
}

// listMessages continues after the seq of the last message shown, so that reading a page costs no
// more than the page.
func (a messageHandlers) listMessages(ctx context.Context, in *struct {
	OfSession
	Paged
}) (*page[message], error) {
	which := orgPrefix(ctx) + "messages " + string(in.ID)
	place, err := a.cursors.read(which, in.Cursor, 2)
	if err != nil {
		return nil, err
	}
	fold, limit := conversation{}, in.limit()
	if place != nil {
		fold.seq, _ = strconv.ParseInt(place[0], 10, 64) // cursors are signed, so this does not fail
		fold.open = perdure.MessageID(place[1])
	}
	session, err := a.cfg.Engine.Sessions().Get(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	type shown struct {
		message
		open perdure.MessageID
	}
	var found []shown
	err = a.eachEvent(ctx, in.ID, section{after: fold.seq, to: session.LastSeq}, func(e perdure.Event) error {
		if m, ok := fold.apply(e); ok {
			found = append(found, shown{m, fold.open})
		}
		if len(found) > limit {
			return errStop
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if m, ok := fold.partial(); ok && len(found) <= limit {
		found = append(found, shown{message: m})
	}
	out := &page[message]{Body: list[message]{Items: []message{}}}
	for i, m := range found[:min(limit, len(found))] {
		out.Body.Items = append(out.Body.Items, m.message)
		if i == limit-1 && len(found) > limit {
			out.Body.Next = a.cursors.write(which, strconv.FormatInt(m.Seq, 10), string(m.open))
		}
	}
	return out, nil
}

// conversation folds a journal to its messages.
type conversation struct {
	seq  int64
	open perdure.MessageID // of the answer that is being written
}

// apply returns the message of an event, if the event has one.
func (c *conversation) apply(e perdure.Event) (message, bool) {
	c.seq = e.Seq
	switch f := e.Fact.(type) {
	case perdure.MessageReceived:
		return entry(e, f.Message, perdure.RoleUser), true
	case perdure.OutputStarted:
		c.open = f.MessageID
	case perdure.OutputCompleted:
		c.open = ""
		m := entry(e, f.Message, perdure.RoleAgent)
		if f.Interrupted || f.Message.Interrupted {
			m.Status = "partial"
		}
		return m, true
	case perdure.ReasonCompleted, perdure.TurnCompleted, perdure.TurnFailed, perdure.TurnCanceled, perdure.TurnSealed:
		c.open = ""
	case perdure.ToolCompleted:
		part := perdure.Part{Type: perdure.PartToolResult, Result: &f.Result}
		return entry(e, perdure.Message{Parts: []perdure.Part{part}}, perdure.RoleToolResult), true
	case perdure.TaskDelivered:
		return entry(e, f.Message, perdure.RoleNotification), true
	case perdure.ToolResolved:
		return entry(e, f.Message, perdure.RoleNotification), true
	case perdure.ReasonRecovered:
		return entry(e, f.Message, perdure.RoleNotification), len(f.Message.Parts) > 0
	}
	return message{}, false
}

// partial returns the answer that is being written, if there is one. Its text so far is sent as
// live frames.
func (c *conversation) partial() (message, bool) {
	return message{ID: c.open, Role: perdure.RoleAgent, Content: []perdure.Part{}, Status: "partial"}, c.open != ""
}

func entry(e perdure.Event, m perdure.Message, role perdure.Role) message {
	return message{ID: m.ID, Role: orDefault(m.Role, role), Content: append([]perdure.Part{}, m.Parts...), Seq: e.Seq, Status: "complete"}
}
