// Platform is a program whose tool works with the runtime itself: ask_colleague starts a session of
// an agent that the program keeps, sends it a question and returns its answer, and list_sessions
// lists the sessions of the caller's org. The program opens the port Platform for these two tools
// only. Even so, they reach nothing outside the org of their session, and cannot write agents.
//
//	go run ./examples/platform
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/agent"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store/sqlite"
	"github.com/perdure/perdure/tool"
)

type askIn struct {
	Agent    string `json:"agent" minLength:"1" jsonschema:"The name of the colleague."`
	Question string `json:"question" minLength:"1"`
}

type askOut struct {
	Session perdure.SessionID `json:"session_id"`
	Answer  string            `json:"answer"`
}

// askColleague returns the tool that asks an agent. A question must not be asked twice.
func askColleague() tool.Tool {
	spec := tool.Spec{Name: "ask_colleague", Description: "Asks a colleague and returns the answer.", Class: perdure.AtMostOnce,
		SoftBudget: tool.Never, NeedsEnv: true}
	return tool.New(spec, func(ctx context.Context, in askIn, env tool.Env) (out askOut, err error) {
		if env.Platform == nil {
			return out, tool.Errorf("%s", tool.Missing("Platform store", "ask_colleague requires it to reach a colleague.").Text)
		}
		id, err := colleague(ctx, env.Platform, in.Agent)
		if err != nil {
			return out, err
		}
		s, err := env.Platform.CreateSession(ctx, tool.SessionRequest{Agent: id, Title: "Question from " + string(env.Call.Session)})
		if err != nil {
			return out, err
		}
		out.Session = s.ID
		if _, err := env.Platform.Send(ctx, s.ID, in.Question); err != nil {
			return out, err
		}
		for {
			switch outcome, err := env.Platform.WaitIdle(ctx, s.ID, time.Minute); {
			case err != nil:
				return out, err
			case outcome == tool.WaitError:
				return out, tool.Errorf("The colleague could not answer. Its session is %s.", s.ID)
			case outcome == tool.WaitIdle:
				out.Answer, err = lastAnswer(ctx, env.Platform, s.ID)
				return out, err
			}
		}
	})
}

// colleague returns the id of the active agent with a name.
func colleague(ctx context.Context, p tool.Platform, name string) (perdure.AgentID, error) {
	all, err := p.Agents(ctx, agent.StatusFilter{})
	if err != nil {
		return "", err
	}
	for _, one := range all {
		if one.Name == name && one.Status.Usable() {
			return one.ID, nil
		}
	}
	return "", tool.Errorf("There is no colleague %q.", name)
}

// lastAnswer returns the last message of a session.
func lastAnswer(ctx context.Context, p tool.Platform, id perdure.SessionID) (answer string, err error) {
	for after, more := int64(0), true; more; {
		page, err := p.Messages(ctx, id, after, 100)
		if err != nil {
			return "", err
		}
		for _, m := range page.Messages {
			if m.Role == perdure.RoleAgent {
				answer = m.Text()
			}
		}
		after, more = page.Source, page.More
	}
	return answer, nil
}

type listOut struct {
	Titles []string `json:"titles"`
}

// listSessions returns the tool that lists the sessions of the org.
func listSessions() tool.Tool {
	spec := tool.Spec{Name: "list_sessions", Description: "Lists the sessions.", Class: perdure.Pure, NeedsEnv: true}
	return tool.New(spec, func(ctx context.Context, _ struct{}, env tool.Env) (out listOut, err error) {
		if env.Platform == nil {
			return out, tool.Errorf("%s", tool.Missing("Platform store", "list_sessions requires it.").Text)
		}
		all, err := env.Platform.Sessions(ctx, 20)
		for _, s := range all {
			out.Titles = append(out.Titles, s.Title)
		}
		return out, err
	})
}

// opened reports whether a call has the port Platform.
func opened(call tool.Call) bool { return call.Tool == "ask_colleague" || call.Tool == "list_sessions" }

const script = `
rules:
  - when: {user_contains: "How many notes are there"}
    text: There are two notes.
  - when: {user_contains: "Ask the librarian", not_called: ask_colleague}
    calls: [{name: ask_colleague, args: {agent: librarian, question: "How many notes are there?"}}]
  - when: {user_contains: "Ask the librarian", not_called: list_sessions}
    calls: [{name: list_sessions, args: {}}]
  - when: {user_contains: "Ask the librarian"}
    text: 'The librarian says: {{(result "ask_colleague").answer}} There are {{len (result "list_sessions").titles}} sessions.'
steps: [{text: "I do not know.", repeat: true}]
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	dir := "data"
	if len(os.Args) > 1 {
		dir = os.Args[1]
	}
	if err := run(ctx, dir, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run keeps an agent, and lets another one ask it.
func run(ctx context.Context, dir string, out io.Writer) (err error) {
	st, err := sqlite.Open(ctx, sqlite.Config{Dir: dir})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	model, err := scripted.Parse("platform", []byte(script))
	if err != nil {
		return err
	}
	eng, err := local.Open(ctx, local.Config{
		Store: st, Model: model, Tools: tool.NewRegistry(askColleague(), listSessions()), Ports: local.Ports{Platform: opened},
	})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1) // Run's one result
	go func() { ended <- eng.Run(ctx) }()
	defer func() {
		stop()
		err = errors.Join(err, <-ended)
	}()
	// Writing agents is for the program, as it is for administrators over HTTP.
	_, err = eng.Agents().Put(ctx, engine.AgentWrite{Name: "librarian", Overlay: agent.Overlay{
		Description: "Knows the notes.", SystemPrompt: "You keep the notes.",
	}})
	if err != nil && !errors.Is(err, perdure.Conflict) { // an earlier run kept it
		return err
	}
	s, err := eng.Sessions().Create(ctx, perdure.Agent{Title: "Desk"})
	if err != nil {
		return err
	}
	if _, err := eng.Send(ctx, s.ID, perdure.Text("Ask the librarian.")); err != nil {
		return err
	}
	if err := eng.Sessions().WaitIdle(ctx, s.ID); err != nil {
		return err
	}
	events, err := eng.Events(ctx, s.ID, 0, 0)
	if err != nil {
		return err
	}
	for _, event := range events {
		if f, ok := event.Fact.(perdure.OutputCompleted); ok && f.Message.Text() != "" {
			fmt.Fprintln(out, f.Message.Text())
		}
	}
	return nil
}
