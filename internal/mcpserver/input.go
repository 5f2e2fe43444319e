package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// Together marks, in the schema of a question, that each of its properties is a question of its own: they are put at once,
// under keys of their own, and the answer is the object of all answers.
const Together = "x-perdure-together"

// inputRequest is what a client is asked for.
type inputRequest struct {
	Method string      `json:"method"`
	Params elicitation `json:"params"`
}

type elicitation struct {
	Mode    string          `json:"mode"`
	Message string          `json:"message"`
	Schema  json.RawMessage `json:"requestedSchema"`
}

// answer is what the client's person said.
type answer struct {
	Action  string          `json:"action"` // accept, decline, cancel
	Content json.RawMessage `json:"content"`
}

// asked is one question as it is put on the wire.
type asked struct {
	key      string
	message  string
	schema   json.RawMessage // of an object
	property string          // of the question's answer that this is; empty: the whole
	wrapped  bool            // the answer is the property "answer" of what comes back
}

func (a asked) request() inputRequest {
	return inputRequest{Method: "elicitation/create", Params: elicitation{Mode: "form", Message: a.message, Schema: a.schema}}
}

// schemaOf is what of a schema counts here.
type schemaOf struct {
	Type       string                     `json:"type"`
	Title      string                     `json:"title"`
	Properties map[string]json.RawMessage `json:"properties"`
	Together   bool                       `json:"x-perdure-together"`
}

// questions is what a task asks, each under a key that is never used again (M6).
func questions(t perdure.Task) []asked {
	q := t.InputRequest
	if q == nil {
		return nil
	}
	if q.Kind == "approval" {
		return []asked{{key: string(q.ID), message: "Allow this call? " + q.Prompt, schema: json.RawMessage(
			`{"type":"object","properties":{"approve":{"type":"boolean","title":"Approve"}},"required":["approve"]}`)}}
	}
	var schema schemaOf
	if len(q.Expected) > 0 && perdure.DecodeKnownJSON(q.Expected, &schema) != nil {
		schema = schemaOf{}
	}
	if schema.Together {
		var all []asked
		for name, of := range schema.Properties {
			var part schemaOf
			_ = perdure.DecodeKnownJSON(of, &part) // a title is all that is wanted
			message := q.Prompt
			if part.Title != "" {
				message = part.Title
			}
			all = append(all, asked{key: string(q.ID) + "." + name, message: message, schema: of, property: name})
		}
		slices.SortFunc(all, func(a, b asked) int { return strings.Compare(a.key, b.key) })
		return all
	}
	one := asked{key: string(q.ID), message: q.Prompt, schema: q.Expected}
	if schema.Type != "object" {
		one.wrapped = true
		inner := json.RawMessage(`{"type":"string"}`)
		if len(q.Expected) > 0 {
			inner = q.Expected
		}
		one.schema = json.RawMessage(`{"type":"object","properties":{"answer":` + string(inner) + `},"required":["answer"]}`)
	}
	return []asked{one}
}

// part is the answer to one of several questions, kept with the task until all are there.
type part struct {
	Key    string          `json:"input_key"`
	Answer json.RawMessage `json:"answer"`
}

// parts is what was answered of a task's question so far.
func (s *Server) parts(ctx context.Context, t perdure.Task) (map[string]json.RawMessage, error) {
	said, err := s.cfg.Engine.TaskMessages(ctx, t.ID, "", 0)
	if err != nil {
		return nil, err
	}
	known := map[string]json.RawMessage{}
	for _, m := range said {
		var one part
		if m.Direction == perdure.Inbound && perdure.DecodeKnownJSON(m.Data, &one) == nil && one.Key != "" {
			known[one.Key] = one.Answer
		}
	}
	return known, nil
}

// open is what a task asks and nobody answered.
func (s *Server) open(ctx context.Context, t perdure.Task) ([]asked, error) {
	all := questions(t)
	if len(all) < 2 && (len(all) == 0 || all[0].property == "") {
		return all, nil
	}
	known, err := s.parts(ctx, t)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(a asked) bool { return known[a.key] != nil }), nil
}

// answer hands over what was answered. Keys that are not asked now are ignored, and so is an answer that comes second.
func (s *Server) answer(ctx context.Context, p peer, t perdure.Task, given map[string]answer) error {
	if !t.Waits() || waitsForOthers(p, t) {
		return nil
	}
	open, err := s.open(ctx, t)
	if err != nil {
		return err
	}
	for _, q := range open {
		a, ok := given[q.key]
		if !ok {
			continue
		}
		if err := s.answerOne(ctx, p, t, q, a); err != nil {
			if errors.Is(err, perdure.Conflict) {
				return nil // answered meanwhile
			}
			return err
		}
	}
	return nil
}

func (s *Server) answerOne(ctx context.Context, p peer, t perdure.Task, q asked, a answer) error {
	if t.InputRequest.Kind == "approval" {
		return s.decide(ctx, p, t, a)
	}
	switch a.Action {
	case "accept":
	case "decline", "cancel": // there is no answer, and the work cannot go on without one
		_, err := s.cfg.Engine.CancelTask(ctx, t.ID, p.ID, "its question was answered with "+a.Action)
		return err
	default:
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "inputResponses." + q.key + ": action is accept, decline or cancel"}
	}
	if len(a.Content) == 0 {
		a.Content = json.RawMessage("{}")
	}
	if q.property == "" {
		m := perdure.TaskMessage{InReplyTo: t.InputRequest.ID, By: p.ID, Data: a.Content}
		if q.wrapped {
			m = wrapped(m, a.Content)
		}
		_, err := s.cfg.Engine.SendTask(ctx, t.ID, m)
		return err
	}
	return s.answerPart(ctx, p, t, q, a)
}

// wrapped takes the answer out of the object that it came in.
func wrapped(m perdure.TaskMessage, content json.RawMessage) perdure.TaskMessage {
	var of struct {
		Answer json.RawMessage `json:"answer"`
	}
	if perdure.DecodeKnownJSON(content, &of) != nil {
		return m
	}
	m.Data = of.Answer
	var text string
	if perdure.DecodeJSON(of.Answer, &text) == nil {
		m.Text = text
	}
	return m
}

// answerPart keeps one answer of several; the last one hands all of them over.
func (s *Server) answerPart(ctx context.Context, p peer, t perdure.Task, q asked, a answer) error {
	if _, err := s.cfg.Engine.SendTask(ctx, t.ID, perdure.TaskMessage{By: p.ID, Data: marshal(part{Key: q.key, Answer: a.Content})}); err != nil {
		return err
	}
	known, err := s.parts(ctx, t)
	if err != nil {
		return err
	}
	whole := map[string]json.RawMessage{}
	for _, one := range questions(t) {
		if known[one.key] == nil {
			return nil
		}
		whole[one.property] = known[one.key]
	}
	_, err = s.cfg.Engine.SendTask(ctx, t.ID, perdure.TaskMessage{InReplyTo: t.InputRequest.ID, By: p.ID, Data: marshal(whole)})
	return err
}

// decide gives the verdict of who has the scope to approve (M10).
func (s *Server) decide(ctx context.Context, p peer, t perdure.Task, a answer) error {
	var said struct {
		Approve bool `json:"approve"`
	}
	if a.Action == "accept" {
		if err := perdure.DecodeKnownJSON(a.Content, &said); err != nil {
			return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "approve: " + err.Error()}
		}
	}
	open, err := s.cfg.Engine.Approvals(ctx, engine.ApprovalFilter{Session: t.Session, State: perdure.ApprovalOpen})
	if err != nil {
		return err
	}
	for _, approval := range open {
		if approval.Task == t.ID {
			_, err := s.cfg.Engine.DecideApproval(ctx, approval.ID, perdure.Verdict{Approve: said.Approve, By: p.ID, ArgsHash: approval.ArgsHash})
			return err
		}
	}
	return nil
}

// elicit asks the client's person, over the older wire, what a task asks.
func (s *Server) elicit(ctx context.Context, p peer, t perdure.Task, id string) error {
	if waitsForOthers(p, t) || !p.elicits {
		return s.waitMoved(ctx, t)
	}
	open, err := s.open(ctx, t)
	if err != nil {
		return err
	}
	for _, q := range open {
		params := &mcp.ElicitParams{Mode: "form", Message: q.message, RequestedSchema: q.schema}
		if id != "" {
			params.Meta = mcp.Meta{metaRelated: map[string]string{"taskId": id}}
		}
		said, err := p.session.Elicit(ctx, params)
		if err != nil {
			return err
		}
		if err := s.answer(ctx, p, t, map[string]answer{q.key: {Action: said.Action, Content: marshal(said.Content)}}); err != nil {
			return err
		}
	}
	return nil
}
