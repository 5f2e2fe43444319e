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

// SeparateQuestions is a keyword in the schema of a question. It marks each property as a separate
// question: all are asked at once, each under its own key, and the answer is the object of all
// answers.
const SeparateQuestions = "x-perdure-together"

// inputRequest is a question to a client.
type inputRequest struct {
	Method string      `json:"method"`
	Params elicitation `json:"params"`
}

type elicitation struct {
	Mode    string          `json:"mode"`
	Message string          `json:"message"`
	Schema  json.RawMessage `json:"requestedSchema"`
}

// answer is the reply of a person at the client.
type answer struct {
	Action  string          `json:"action"` // accept, decline, cancel
	Content json.RawMessage `json:"content"`
}

// questionPart is one question as sent to clients.
type questionPart struct {
	key     string
	message string
	schema  json.RawMessage // of an object
	// The property of the whole answer that this question asks for; empty: the whole answer.
	property string
	wrapped  bool // the answer is the property "answer" of the reply
}

func (a questionPart) request() inputRequest {
	return inputRequest{Method: "elicitation/create", Params: elicitation{Mode: "form", Message: a.message, Schema: a.schema}}
}

// schemaOf is the part of a schema that is used here.
type schemaOf struct {
	Type       string                     `json:"type"`
	Title      string                     `json:"title"`
	Properties map[string]json.RawMessage `json:"properties"`
	Together   bool                       `json:"x-perdure-together"`
}

// questions returns the open questions of a task, each under a key that is never reused (M6).
func questions(t perdure.Task) []questionPart {
	q := t.InputRequest
	if q == nil {
		return nil
	}
	if q.Kind == "approval" {
		return []questionPart{{key: string(q.ID), message: "Allow this call? " + q.Prompt, schema: json.RawMessage(
			`{"type":"object","properties":{"approve":{"type":"boolean","title":"Approve"}},"required":["approve"]}`)}}
	}
	var schema schemaOf
	if len(q.Expected) > 0 && perdure.DecodeKnownJSON(q.Expected, &schema) != nil {
		schema = schemaOf{}
	}
	if schema.Together {
		var all []questionPart
		for name, of := range schema.Properties {
			var part schemaOf
			_ = perdure.DecodeKnownJSON(of, &part) // only the title is needed
			message := q.Prompt
			if part.Title != "" {
				message = part.Title
			}
			all = append(all, questionPart{key: string(q.ID) + "." + name, message: message, schema: of, property: name})
		}
		slices.SortFunc(all, func(a, b questionPart) int { return strings.Compare(a.key, b.key) })
		return all
	}
	one := questionPart{key: string(q.ID), message: q.Prompt, schema: q.Expected}
	if schema.Type != "object" {
		one.wrapped = true
		inner := json.RawMessage(`{"type":"string"}`)
		if len(q.Expected) > 0 {
			inner = q.Expected
		}
		one.schema = json.RawMessage(`{"type":"object","properties":{"answer":` + string(inner) + `},"required":["answer"]}`)
	}
	return []questionPart{one}
}

// part is the answer to one of several questions, stored with the task until all are answered.
type part struct {
	Key    string          `json:"input_key"`
	Answer json.RawMessage `json:"answer"`
}

// storedParts returns the answers stored so far for the questions of a task.
func (s *Server) storedParts(ctx context.Context, t perdure.Task) (map[string]json.RawMessage, error) {
	messages, err := s.cfg.Engine.Tasks().Messages(ctx, t.ID, "", 0)
	if err != nil {
		return nil, err
	}
	known := map[string]json.RawMessage{}
	for _, m := range messages {
		var one part
		if m.Direction == perdure.Inbound && perdure.DecodeKnownJSON(m.Data, &one) == nil && one.Key != "" {
			known[one.Key] = one.Answer
		}
	}
	return known, nil
}

// openParts returns the questions of a task that are not answered yet.
func (s *Server) openParts(ctx context.Context, t perdure.Task) ([]questionPart, error) {
	all := questions(t)
	if len(all) < 2 && (len(all) == 0 || all[0].property == "") {
		return all, nil
	}
	known, err := s.storedParts(ctx, t)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(a questionPart) bool { return known[a.key] != nil }), nil
}

// answer passes answers on to the task. Answers to questions that are not open, and second answers,
// are ignored.
func (s *Server) answer(ctx context.Context, p peer, t perdure.Task, given map[string]answer) error {
	if !t.AwaitsInput() || needsOtherApprover(p, t) {
		return nil
	}
	open, err := s.openParts(ctx, t)
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
				return nil // answered in the meantime
			}
			return err
		}
	}
	return nil
}

func (s *Server) answerOne(ctx context.Context, p peer, t perdure.Task, q questionPart, a answer) error {
	if t.InputRequest.Kind == "approval" {
		return s.decide(ctx, p, t, a)
	}
	switch a.Action {
	case "accept":
	case "decline", "cancel": // without an answer the work cannot continue
		_, err := s.cfg.Engine.Tasks().Cancel(ctx, t.ID, p.ID, "its question was answered with "+a.Action)
		return err
	default:
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "inputResponses." + q.key + ": action must be accept, decline or cancel"}
	}
	if len(a.Content) == 0 {
		a.Content = json.RawMessage("{}")
	}
	if q.property == "" {
		m := perdure.TaskMessage{InReplyTo: t.InputRequest.ID, By: p.ID, Data: a.Content}
		if q.wrapped {
			m = unwrapAnswer(m, a.Content)
		}
		_, err := s.cfg.Engine.Tasks().Send(ctx, t.ID, m)
		return err
	}
	return s.answerPart(ctx, p, t, q, a)
}

// unwrapAnswer takes the answer out of the object in which it was sent.
func unwrapAnswer(m perdure.TaskMessage, content json.RawMessage) perdure.TaskMessage {
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

// answerPart stores one of several answers; the last one sends all of them to the task.
func (s *Server) answerPart(ctx context.Context, p peer, t perdure.Task, q questionPart, a answer) error {
	if _, err := s.cfg.Engine.Tasks().Send(ctx, t.ID, perdure.TaskMessage{By: p.ID, Data: marshal(part{Key: q.key, Answer: a.Content})}); err != nil {
		return err
	}
	known, err := s.storedParts(ctx, t)
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
	_, err = s.cfg.Engine.Tasks().Send(ctx, t.ID, perdure.TaskMessage{InReplyTo: t.InputRequest.ID, By: p.ID, Data: marshal(whole)})
	return err
}

// decide records the verdict of a principal with the scope to approve (M10).
func (s *Server) decide(ctx context.Context, p peer, t perdure.Task, a answer) error {
	var decision struct {
		Approve bool `json:"approve"`
	}
	if a.Action == "accept" {
		if err := perdure.DecodeKnownJSON(a.Content, &decision); err != nil {
			return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "approve: " + err.Error()}
		}
	}
	open, err := s.cfg.Engine.Approvals().List(ctx, engine.ApprovalFilter{Session: t.Session, State: perdure.ApprovalOpen})
	if err != nil {
		return err
	}
	for _, approval := range open {
		if approval.Task == t.ID {
			_, err := s.cfg.Engine.Approvals().Decide(ctx, approval.ID, perdure.Verdict{Approve: decision.Approve, By: p.ID, ArgsHash: approval.ArgsHash})
			return err
		}
	}
	return nil
}

// elicit asks the person at the client, on 2025-11-25, what a task asks.
func (s *Server) elicit(ctx context.Context, p peer, t perdure.Task, id string) error {
	if needsOtherApprover(p, t) || !p.elicits {
		return s.waitAnsweredElsewhere(ctx, t)
	}
	open, err := s.openParts(ctx, t)
	if err != nil {
		return err
	}
	for _, q := range open {
		params := &mcp.ElicitParams{Mode: "form", Message: q.message, RequestedSchema: q.schema}
		if id != "" {
			params.Meta = mcp.Meta{metaRelated: map[string]string{"taskId": id}}
		}
		result, err := p.session.Elicit(ctx, params)
		if err != nil {
			return err
		}
		if err := s.answer(ctx, p, t, map[string]answer{q.key: {Action: result.Action, Content: marshal(result.Content)}}); err != nil {
			return err
		}
	}
	return nil
}
