package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// person is who speaks through the command line.
const person = "user"

// defaultInstructions is the system prompt of a session that was given none. The tool sets add their parts.
const defaultInstructions = "You are a capable assistant with tools. Use them to do what you are asked, and check what they " +
	"answer. Work that takes long can run in the background: you are told when it has ended. When you are done, say " +
	"plainly what you did, and what you could not do."

type runCommand struct {
	Prompt     string `arg:"" optional:"" help:"What to say; - reads it from stdin. A new session reads stdin without it, too; on a terminal it becomes a conversation."`
	Model      string `help:"Which model answers: openai:NAME, anthropic:NAME, or scripted:FILE. The first two read their key from OPENAI_API_KEY and ANTHROPIC_API_KEY." placeholder:"MODEL"`
	BaseURL    string `name:"base-url" help:"The server that is asked instead of the provider's own: any that speaks the same protocol, also on this machine." placeholder:"URL"`
	Workspace  string `help:"The folder that holds the session's files, and where commands run. Without it the data directory keeps the files." placeholder:"DIR" type:"path"`
	AllowShell bool   `help:"Let the agent run commands with bash, in the workspace; without one, in the current folder."`
	sandboxFlags
	Capability   []string      `help:"Give a new session tools that none has by default: session_storage, session_sql, session_resources, session_schedule, subagents. Can be given several times." placeholder:"NAME"`
	Ask          []string      `help:"Ask a person before each call of this tool, as long as this run lasts: perdure approve answers. Can be given several times." placeholder:"TOOL"`
	Deny         []string      `help:"Let no call of this tool run, as long as this run lasts. Can be given several times." placeholder:"TOOL"`
	AskUntrusted bool          `name:"ask-untrusted" help:"Once a session has read what came from outside (a page, a file, the output of a command), ask a person before each call that reaches further than the session: perdure approve answers."`
	SoftBudget   time.Duration `name:"soft-budget" help:"In a new session, how long a call may keep its turn waiting before it goes on in the background, for instance 30s; a negative one means for ever. Default: 10m." placeholder:"DURATION"`
	Retention    string        `help:"How long a task is kept that has ended, for instance 30d or 720h; 0 means for ever. Default: 30d." placeholder:"DURATION" env:"PERDURE_TASKS_RETENTION"`
	Agent        string        `help:"Start the session of this agent, which says what is not said here: its name or its id (perdure agent list)." placeholder:"AGENT"`
	Instructions string        `help:"The system prompt of a new session." placeholder:"TEXT"`
	Label        []string      `help:"Put a label on a new session, by which it is found. Can be given several times." placeholder:"KEY=VALUE" sep:"none"`
	Session      string        `help:"Go on with this session." placeholder:"ID" xor:"session"`
	Last         bool          `help:"Go on with the session that was started last." xor:"session"`
	Bg           bool          `help:"Only hand over the message, print the session's id, and leave."`
	Output       string        `short:"o" help:"How to print: text, or json: a line for each event." placeholder:"FORM" enum:"text,json,jsonl" default:"text"`
}

// Run speaks with an agent.
func (c *runCommand) Run(ctx context.Context, a *app) error {
	if c.Last {
		c.Session = lastSession
	}
	if c.BaseURL != "" && c.Model == "" {
		return misuse("--base-url names the server of a model, and there is no --model", program+" run --model openai:NAME --base-url "+quote(c.BaseURL))
	}
	if err := c.noServer(); err != nil {
		return err
	}
	if c.Bg && (len(c.Ask)+len(c.Deny) > 0 || c.AskUntrusted) {
		return misuse("--ask, --deny and --ask-untrusted are rules for the work of this run, and --bg leaves the work to another one", "give them to that run, or to "+program+" serve")
	}
	if len(c.Label) > 0 && c.Session != "" {
		return misuse("--label is for a new session", program+" session label "+a.place()+quote(c.Session)+" KEY=VALUE")
	}
	if err := c.ofAgent(); err != nil {
		return err
	}
	talks, err := c.readPrompt(a)
	if err != nil {
		return err
	}
	return a.with(ctx, Opening{Access: Writing, AllowShell: c.AllowShell, Sandbox: c.sandbox(), Ask: c.Ask, Deny: c.Deny, AskUntrusted: c.AskUntrusted, Retention: a.retention(c.Retention), AskModels: !c.Bg}, func(eng Engine) error {
		if c.Session != "" {
			return c.goOn(ctx, a, eng, talks)
		}
		return c.begin(ctx, a, eng, talks)
	})
}

// readPrompt finds out what to say, and whether there is a person to talk with.
func (c *runCommand) readPrompt(a *app) (talks bool, err error) {
	typed := c.Prompt
	switch {
	case typed == "-", typed == "" && c.Session == "" && !a.Terminal.Stdin && !a.flags.NoInput:
		if c.Prompt, err = a.readInput(); err != nil {
			return false, err
		}
		c.Prompt = strings.TrimSpace(c.Prompt)
	case typed == "":
		talks = a.Terminal.Stdin && !a.flags.NoInput && !c.Bg && c.Output == "text"
	}
	if c.Prompt == "" && !talks && (c.Session == "" || c.Bg || typed == "-") {
		return false, misuse("there is nothing to say", program+` run --model openai:NAME "what to do"`)
	}
	return talks, nil
}

// begin starts a session.
func (c *runCommand) begin(ctx context.Context, a *app, eng Engine, talks bool) error {
	start, err := c.starter(ctx, a, eng)
	if err != nil {
		return err
	}
	talk := &conversation{a: a, eng: eng}
	if talks {
		talk.lines = a.typist(ctx)
		if c.Prompt, err = talk.ask(ctx); err != nil || c.Prompt == "" {
			return err
		}
	}
	labels, err := labelsOf(c.Label)
	if err != nil {
		return err
	}
	s, err := start(ctx, clip(strings.Join(strings.Fields(c.Prompt), " "), cellChars), labels)
	if err != nil {
		return fmt.Errorf("start a session: %w", err)
	}
	return c.speak(ctx, a, talk, s)
}

// ofAgent refuses what an agent says itself.
func (c *runCommand) ofAgent() error {
	switch {
	case c.Agent == "":
		return nil
	case c.Session != "":
		return misuse("--agent is for a new session", "leave it out, or start a new session without --session and --last")
	case c.Instructions != "" || len(c.Capability) > 0 || c.SoftBudget != 0 || c.AllowShell:
		return misuse("the agent says itself what --instructions, --capability, --soft-budget and --allow-shell would say", "change the agent with "+program+" agent apply, or leave --agent out")
	}
	return nil
}

// starter looks at what is to answer, and returns how its session is started.
func (c *runCommand) starter(ctx context.Context, a *app, eng Engine) (func(ctx context.Context, title string, labels perdure.Labels) (engine.Session, error), error) {
	if c.Agent == "" {
		agent, err := c.agent(ctx, a, eng)
		return func(ctx context.Context, title string, labels perdure.Labels) (engine.Session, error) {
			agent.Title, agent.Labels = title, labels
			return eng.NewSession(ctx, agent)
		}, err
	}
	id, err := a.agent(ctx, eng, c.Agent)
	if err != nil {
		return nil, err
	}
	is, err := eng.EffectiveAgent(ctx, id)
	if err != nil {
		return nil, err
	}
	order := engine.AgentOrder{Agent: id}
	asked := is.Agent.Model
	if c.Model != "" {
		asked = c.modelName()
	}
	if asked == "" {
		return nil, misuse("the agent "+c.Agent+" names no model, and there is no --model", program+" run --agent "+quote(c.Agent)+` --model openai:NAME "what to do"`)
	}
	name, err := a.checkModel(ctx, eng, asked)
	if err != nil {
		return nil, c.noModel(err)
	}
	if name != is.Agent.Model {
		order.Model = name
	}
	dir, err := c.workspace()
	if dir != "" {
		order.Metadata = map[string]string{WorkspaceKey: dir}
	}
	return func(ctx context.Context, title string, labels perdure.Labels) (engine.Session, error) {
		order.Title, order.Labels = title, labels
		return eng.StartOf(ctx, order)
	}, err
}

// agent is who answers in a new session. What it may do is fixed from now on.
func (c *runCommand) agent(ctx context.Context, a *app, eng Engine) (perdure.Agent, error) {
	agent := perdure.Agent{Instructions: defaultInstructions, Metadata: map[string]string{}}
	if c.Model == "" {
		return agent, misuse("a new session needs a model", program+` run --model openai:NAME "what to do"`)
	}
	var err error
	if agent.Model, err = a.checkModel(ctx, eng, c.modelName()); err != nil {
		return agent, c.noModel(err)
	}
	if c.Instructions != "" {
		agent.Instructions = c.Instructions
	}
	if agent.SoftBudgetMS = c.SoftBudget.Milliseconds(); c.SoftBudget < 0 {
		agent.SoftBudgetMS = -1
	}
	if agent.Metadata[WorkspaceKey], err = c.workspace(); err != nil {
		return agent, err
	}
	if agent.Metadata[WorkspaceKey] == "" {
		delete(agent.Metadata, WorkspaceKey)
	}
	agent.Capabilities = c.Capability
	if c.AllowShell {
		a.say("commands run in %s", a.line(agent.Metadata[WorkspaceKey], 300))
		agent.Capabilities = append(slices.Clone(c.Capability), ShellCapability)
	}
	return agent, nil
}

// modelName is the name of the model together with its server.
func (c *runCommand) modelName() string {
	if c.BaseURL == "" {
		return c.Model
	}
	return c.Model + "@" + c.BaseURL
}

// workspace returns the folder for the session's files; empty: the data directory keeps them.
func (c *runCommand) workspace() (string, error) {
	dir := c.Workspace
	if dir == "" && !c.AllowShell {
		return "", nil
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("find the workspace: %w", err)
	}
	switch found, err := os.Stat(dir); {
	case errors.Is(err, os.ErrNotExist):
		return "", misuse("the workspace "+dir+" is not there", "make it: mkdir -p "+quote(dir))
	case err != nil:
		return "", misuse("the workspace cannot be used: "+err.Error(), "")
	case !found.IsDir():
		return "", misuse("the workspace "+dir+" is no folder", "name a folder with --workspace")
	}
	return dir, nil
}

// goOn speaks in a session that is there, or only lets it go on.
func (c *runCommand) goOn(ctx context.Context, a *app, eng Engine, talks bool) error {
	s, err := a.session(ctx, eng, c.Session)
	if err != nil {
		return err
	}
	fold, err := foldOf(ctx, eng, s.ID)
	if err != nil {
		return err
	}
	if err := c.agrees(fold.Agent); err != nil {
		return err
	}
	if !c.Bg && (c.Prompt != "" || talks || !fold.AtRest()) {
		if err := c.useModel(ctx, a, eng, s.ID, fold.Agent.Model); err != nil {
			return err
		}
	}
	talk := &conversation{a: a, eng: eng}
	if talks && fold.AtRest() {
		talk.lines = a.typist(ctx)
	}
	return c.speak(ctx, a, talk, s)
}

// agrees refuses flags that say something else than what the session was started with.
func (c *runCommand) agrees(agent perdure.Agent) error {
	workspace, err := c.workspace()
	if err != nil {
		return err
	}
	var flag string
	switch {
	case c.AllowShell && !slices.Contains(agent.Tools, ShellTool):
		flag = "--allow-shell"
	case slices.ContainsFunc(c.Capability, func(id string) bool { return !slices.Contains(agent.Capabilities, id) }):
		flag = "--capability"
	case c.Workspace != "" && workspace != agent.Metadata[WorkspaceKey]:
		flag = "--workspace"
	case c.Instructions != "" && c.Instructions != agent.Instructions:
		flag = "--instructions"
	default:
		return nil
	}
	return misuse("this session was started with another "+flag, "what an agent may do is fixed when its session starts: leave "+flag+" out, or start a new session")
}

// useModel lets the session's own model answer, or the one that was asked for.
func (c *runCommand) useModel(ctx context.Context, a *app, eng Engine, id perdure.SessionID, own string) error {
	if c.Model == "" {
		if _, err := a.checkModel(ctx, eng, own); err != nil {
			return &fault{err: err, code: exitCode(err), what: "the session's own model cannot be asked: " + err.Error(), todo: "name another one with --model"}
		}
		return nil
	}
	name, err := a.checkModel(ctx, eng, c.modelName())
	if err != nil {
		return c.noModel(err)
	}
	eng.UseModel(id, name)
	return nil
}

// noServer refuses a --base-url that is none: the name of the model would take it for a part of itself.
func (c *runCommand) noServer() error {
	if c.BaseURL == "" || strings.HasPrefix(c.BaseURL, "http://") || strings.HasPrefix(c.BaseURL, "https://") {
		return nil
	}
	return misuse("--base-url "+c.BaseURL+" is no URL of http or https", "for instance https://example.com/v1, or http://127.0.0.1:8080/v1 on this machine")
}

// checkModel is CheckModel of an engine, with an exit code of its own for a key that is missing: what keeps the provider from
// being asked is what keeps the model from it.
func (a *app) checkModel(ctx context.Context, eng Engine, name string) (string, error) {
	found, err := eng.CheckModel(name)
	if !errors.Is(err, perdure.Invalid) {
		return found, err
	}
	all, unread := eng.Providers(ctx)
	if unread != nil {
		return "", err // what is known is that the model cannot be asked
	}
	for _, p := range all {
		if variable, _, _ := strings.Cut(p.Missing, " "); variable != "" && strings.Contains(err.Error(), variable+" is not set") {
			return "", &fault{err: err, code: exitDenied, what: err.Error()}
		}
	}
	return "", err
}

// noModel says what to do about a model that cannot be asked.
func (c *runCommand) noModel(err error) error {
	page := "docs/how-to/use-your-model.md says how to name a model, a server and a key"
	if strings.HasPrefix(c.Model, "scripted:") {
		page = "--model scripted:FILE names a script; docs/reference/scripted-model.md says how to write one"
	}
	return &fault{err: err, code: exitCode(err), what: err.Error(), todo: page}
}

// speak sends the prompt, if there is one, and shows what comes of it.
func (c *runCommand) speak(ctx context.Context, a *app, talk *conversation, s engine.Session) error {
	var err error
	if talk.stream, err = newStream(ctx, talk.eng, s.ID); err != nil {
		return err
	}
	if a.flags.NoInput {
		talk.stream.alone = a.place() + "--session " + string(s.ID)
	}
	show := newVoice(a, talk.stream.fold)
	talk.stream.show = show
	switch {
	case c.Output != "text":
		talk.stream.show = journal{a}
	case a.Terminal.Stdin && a.Terminal.Stderr && !a.flags.NoInput && !c.Bg:
		show.asks = talk.asking(ctx)
	}
	if s.LastSeq == 1 { // a new session: its first event belongs to what is shown
		talk.stream.fold = perdure.NewSession(s.ID)
	}
	unfinished, waited := !talk.stream.atRest(), talk.stream.fold.Clone()
	if c.Prompt != "" {
		if err := talk.send(ctx, c.Prompt); err != nil {
			return err
		}
	}
	if c.Bg {
		c.leave(a, s.ID)
		talk.sayHeld(ctx)
		return nil
	}
	if err := c.others(ctx, a, talk.eng, s.ID); err != nil {
		return err
	}
	defer a.onCtrlC(func() bool { return talk.interrupt(ctx) })()
	a.say("session %s", a.paint.talk.mark(bold, string(s.ID)))
	if c.Output == "text" {
		show.waiting(waited)
	}
	switch {
	case unfinished:
		a.say("it goes on where it was left%s", leftOpen(talk.stream.open()))
	case talk.lines != nil:
		return talk.run(ctx)
	case c.Prompt == "":
		if err := talk.held(ctx); err != nil {
			return err
		}
		a.say("it is at rest: nothing is left to do")
		return nil
	}
	return talk.once(ctx)
}

// others tells of work of other sessions: an engine takes up all that was left.
func (c *runCommand) others(ctx context.Context, a *app, eng engine.Sessions, id perdure.SessionID) error {
	all, err := eng.Sessions(ctx, 0)
	if err != nil {
		return fmt.Errorf("list sessions: %w", err)
	}
	left := 0
	for _, s := range all {
		if s.ID != id && (s.Status == perdure.SessionActive || s.OpenTasks > 0) {
			left++
		}
	}
	if left > 0 {
		a.say("%s goes on meanwhile", count(left, "other session"))
	}
	return nil
}

func leftOpen(tasks int) string {
	if tasks == 0 {
		return ""
	}
	return ", with " + count(tasks, "open task")
}

// leave prints the id, and what to do next.
func (c *runCommand) leave(a *app, id perdure.SessionID) {
	fmt.Fprintln(a.out, id)
	place := a.place()
	a.say("the message to %s is durable; next:", id)
	a.say("  %s run %s--session %s", program, place, id)
	a.say("  %s session show %s%s", program, place, id)
	a.say("  %s event list %s%s", program, place, id)
	a.say("  %s task list %s--session %s", program, place, id)
}
