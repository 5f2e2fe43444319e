package api

import (
	"context"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// newMessage is the body of a message that is sent.
type newMessage struct {
	Content []newPart         `json:"content" minItems:"1"`
	Mode    perdure.Mode      `json:"mode,omitempty" enum:"steer,queue,interrupt,reject" doc:"What the message does to a turn that runs; steer when it is not said."`
	Model   string            `json:"model,omitempty"`
	ID      perdure.MessageID `json:"id,omitempty" doc:"The message's own id, for callers that mint them. The same id with the same content is one message."`
}

// newPart is one piece of a message that is sent: a text, an image, or one that is kept with the session.
type newPart struct {
	Type      perdure.PartType   `json:"type" enum:"text,image,image_file"`
	Text      string             `json:"text,omitempty"`
	Image     *perdure.Image     `json:"image,omitempty"`
	ImageFile *perdure.ImageFile `json:"image_file,omitempty" doc:"An image that a tool left in this session."`
	Untrusted bool               `json:"untrusted,omitempty" doc:"Somebody wrote it who may give no orders: the text of a mail, the body of a webhook."`
}

// message is one entry of a conversation as callers see it.
type message struct {
	ID      perdure.MessageID `json:"id" doc:"Empty for the result of a tool: its call names it."`
	Role    perdure.Role      `json:"role" enum:"user,agent,tool_result,notification"`
	Content []perdure.Part    `json:"content"`
	Seq     int64             `json:"seq,omitempty" doc:"Of the event that brought it; absent while it is being written."`
	Status  string            `json:"status" enum:"complete,partial"`
}

// accepted is the answer to a message: it is durable, and its answer comes as events.
type accepted struct {
	Body struct {
		MessageID perdure.MessageID `json:"message_id"`
		Seq       int64             `json:"seq" doc:"Of the session, after the commit."`
		Hold      *engine.Hold      `json:"hold,omitempty" doc:"Why the message waits until somebody acts; absent: it is answered."`
	}
}

func (a *API) messageOperations() {
	example := newMessage{Content: []newPart{{Type: perdure.PartText, Text: "What can you do?"}}}
	write(a, operation{
		id: "send-message", path: "/v1/sessions/{id}/messages", policy: writes, summary: "Send a message",
		status: http.StatusAccepted, errors: []int{http.StatusNotFound},
	}, body[newMessage]{example: example}, a.sendMessage)
	read(a, operation{
		id: "list-messages", path: "/v1/sessions/{id}/messages", policy: reads, summary: "List the messages of a session", errors: []int{http.StatusNotFound},
	}, a.listMessages)
}

func (a *API) sendMessage(ctx context.Context, in *OfSession, body newMessage) (*accepted, error) {
	parts, err := body.parts()
	if err != nil {
		return nil, err
	}
	if body.ID == "" {
		body.ID = newID[perdure.MessageID](ctx)
	}
	if _, err := perdure.ParseID[perdure.MessageID](string(body.ID)); err != nil {
		return nil, invalid("/id", "%v", err)
	}
	m := perdure.Message{ID: body.ID, Role: perdure.RoleUser, Parts: parts, Mode: body.Mode, Model: body.Model}
	if err := a.cfg.Engine.Send(ctx, in.ID, m); err != nil {
		return nil, err
	}
	s, err := a.cfg.Engine.Session(ctx, in.ID)
	out := &accepted{}
	out.Body.MessageID, out.Body.Seq, out.Body.Hold = body.ID, s.LastSeq, s.Hold
	return out, err
}

// parts checks the content: each part has what its type says, and nothing else.
func (m newMessage) parts() ([]perdure.Part, error) {
	if len(m.Content) == 0 {
		return nil, invalid("/content", "a message needs at least one part")
	}
	parts := make([]perdure.Part, len(m.Content))
	for i, p := range m.Content {
		at := "/content/" + strconv.Itoa(i)
		switch {
		case p.Type == perdure.PartImageFile && (p.ImageFile == nil || p.Image != nil || p.Text != ""):
			return nil, invalid(at, "an image_file part has an image_file and nothing else")
		case p.Type == perdure.PartImageFile:
			if _, err := perdure.ParseID[perdure.ImageID](string(p.ImageFile.ID)); err != nil {
				return nil, invalid(at+"/image_file/id", "%v", err)
			}
		case p.ImageFile != nil:
			return nil, invalid(at, "only an image_file part has an image_file")
		case p.Type == perdure.PartText && p.Image == nil && p.Text != "":
		case p.Type == perdure.PartText:
			return nil, invalid(at, "a text part has a text that is not empty, and no image")
		case p.Type == perdure.PartImage && (p.Image == nil || p.Text != ""):
			return nil, invalid(at, "an image part has an image and no text")
		case p.Type == perdure.PartImage:
			if _, err := base64.StdEncoding.DecodeString(p.Image.Base64); err != nil || p.Image.Base64 == "" {
				return nil, invalid(at+"/image/base64", "it is no base64")
			}
			if !strings.HasPrefix(p.Image.MediaType, "image/") {
				return nil, invalid(at+"/image/media_type", "a type of image, such as image/png")
			}
		default:
			return nil, invalid(at+"/type", "text, image or image_file")
		}
		parts[i] = perdure.Part{Type: p.Type, Text: p.Text, Image: p.Image, ImageFile: p.ImageFile, Untrusted: p.Untrusted}
	}
	return parts, nil
}

// listMessages walks the journal by the seq of the last message shown, so that a page costs a page.
func (a *API) listMessages(ctx context.Context, in *struct {
	OfSession
	Paged
}) (*page[message], error) {
	which := whose(ctx) + "messages " + string(in.ID)
	place, err := a.cursors.read(which, in.Cursor, 2)
	if err != nil {
		return nil, err
	}
	fold, limit := conversation{}, in.limit()
	if place != nil {
		fold.seq, _ = strconv.ParseInt(place[0], 10, 64) // signed by us
		fold.open = perdure.MessageID(place[1])
	}
	session, err := a.cfg.Engine.Session(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	type shown struct {
		message
		open perdure.MessageID
	}
	var found []shown
	err = a.eachEvent(ctx, in.ID, span{after: fold.seq, to: session.LastSeq}, func(e perdure.Event) error {
		if m, ok := fold.apply(e); ok {
			found = append(found, shown{m, fold.open})
		}
		if len(found) > limit {
			return errEnough
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

// apply returns the message that an event brings, if it brings one.
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

// partial is the answer that is being written, when there is one. Its text so far comes as live frames.
func (c *conversation) partial() (message, bool) {
	return message{ID: c.open, Role: perdure.RoleAgent, Content: []perdure.Part{}, Status: "partial"}, c.open != ""
}

func entry(e perdure.Event, m perdure.Message, role perdure.Role) message {
	return message{ID: m.ID, Role: orDefault(m.Role, role), Content: append([]perdure.Part{}, m.Parts...), Seq: e.Seq, Status: "complete"}
}
