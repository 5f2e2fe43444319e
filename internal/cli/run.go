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
	"github.com/perdure/perdure/internal/cli/settings"
)

// person is the author of messages that are sent from the command line.
const person = "user"

// defaultInstructions is the system prompt of a session without one. The capabilities add their
// parts.
const defaultInstructions = "You are a capable assistant with tools. Use them to do what you are asked, and check their " +
	"results. Long work can run in the background; you are notified when it ends. When you are done, say " +
	"plainly what you did, and what you could not do."

type runCommand struct {
	Prompt     string `arg:"" optional:"" help:"Prompt; - reads it from stdin. Without a prompt, a new session reads stdin, or starts a conversation on a terminal."`
	Model      string `help:"Model: openai:NAME, anthropic:NAME, scripted:FILE, or PROVIDER/NAME for a stored provider (see perdure provider). Default: the default model (see perdure model default)." placeholder:"MODEL"`
	BaseURL    string `name:"base-url" help:"Use this server instead of the provider's own. It must speak the same protocol." placeholder:"URL"`
	Workspace  string `help:"Folder for the files and commands of the session. Default: files are stored in the data directory." placeholder:"DIR" type:"path"`
	AllowShell bool   `help:"Let the agent run commands with bash, in the workspace or else in the current folder."`
	sandboxFlags
	settings.Utility
	Capability   []string `help:"Add a capability to a new session: session_storage, session_sql, session_resources, session_title, session_schedule, session_messages, session_images or subagents. Repeatable." placeholder:"NAME"`
	Ask          []string `help:"Require an approval for each call of this tool during this run (see perdure approve). Repeatable." placeholder:"TOOL"`
	Deny         []string `help:"Deny every call of this tool during this run. Repeatable." placeholder:"TOOL"`
	AwaitConnect bool     `name:"await-connections" help:"Pause a call of a new session that needs an account which is not connected, until perdure connection add has connected it. Otherwise the model is notified at once."`
	AskUntrusted bool     `name:"ask-untrusted" help:"Once a session has read untrusted content (a web page, a file, command output), require an approval for each call that reaches beyond the session."`
	secretFlags
	SoftBudget   time.Duration `name:"soft-budget" help:"How long a call of a new session may run before it is detached to the background, for instance 30s; negative for no limit. Default: 10m." placeholder:"DURATION"`
	Retention    string        `help:"Keep ended tasks for this long, for instance 30d or 720h; 0 keeps them forever. Default: 30d." placeholder:"DURATION" env:"PERDURE_TASKS_RETENTION"`
	Agent        string        `help:"Start the session from this agent, by name or id (see perdure agent list)." placeholder:"AGENT"`
	Instructions string        `help:"System prompt of a new session." placeholder:"TEXT"`
	Image        []string      `help:"Show an image with the prompt: a local file, which is stored with the session, or the id of one of its images. Repeatable." placeholder:"FILE|ID" sep:"none"`
	Label        []string      `help:"Add a label to a new session. Repeatable." placeholder:"KEY=VALUE" sep:"none"`
	Metadata     []string      `help:"Tell tools, hooks and the routing policy something about this request. The model does not read it. Repeatable." placeholder:"KEY=VALUE" sep:"none"`
	Session      string        `help:"Continue this session." placeholder:"ID" xor:"session"`
	Last         bool          `help:"Continue the most recently started session." xor:"session"`
	Bg           bool          `help:"Store the message, print the session id and exit without waiting."`
	Output       string        `short:"o" help:"Output format: text, or json with one line per event." placeholder:"FORMAT" enum:"text,json,jsonl" default:"text"`

	attached []attachedImage // the images of --image
}

// Run sends a prompt to an agent.
func (c *runCommand) Run(ctx context.Context, a *app) error {
	if c.Last {
		c.Session = lastSession
	}
	if _, err := metadataOf(c.Metadata); err != nil {
		return err
	}
	if c.BaseURL != "" && c.Model == "" {
		return usageError("--base-url needs --model", program+" run --model openai:NAME --base-url "+quote(c.BaseURL))
	}
	if err := c.checkBaseURL(); err != nil {
		return err
	}
	if c.Bg && (len(c.Ask)+len(c.Deny) > 0 || c.AskUntrusted || !c.secrets().IsZero()) {
		return usageError("--ask, --deny, --ask-untrusted and the flags for secrets apply to the work of this run, but with --bg this run does no work", "give them to the run that does the work, or to "+program+" serve")
	}
	if len(c.Label) > 0 && c.Session != "" {
		return usageError("--label works only for a new session",
			program+" session label "+a.storeFlags()+quote(c.Session)+" KEY=VALUE")
	}
	if err := c.checkAgentFlags(); err != nil {
		return err
	}
	talks, err := c.readPrompt(a)
	if err == nil {
		err = c.readImages(a)
	}
	if err != nil {
		return err
	}
	return a.with(ctx, OpenOptions{Access: Writing, AllowShell: c.AllowShell, Sandbox: c.sandbox(), Ask: c.Ask,
		Deny: c.Deny, AskUntrusted: c.AskUntrusted, Secrets: c.secrets(), Retention: a.retention(c.Retention), Utility: c.Utility, AskModels: !c.Bg},
		func(eng Engine) error {
			if c.Session != "" {
				return c.resume(ctx, a, eng, talks)
			}
			return c.begin(ctx, a, eng, talks)
		})
}

// readImages reads the images of --image before anything is stored.
func (c *runCommand) readImages(a *app) (err error) {
	if c.attached, err = attachedImages(a, c.Image); err != nil || len(c.attached) == 0 {
		return err
	}
	switch named := slices.ContainsFunc(c.attached, func(i attachedImage) bool { return i.id != "" }); {
	case named && c.Session == "":
		return usageError("a new session has no images yet, so --image takes only files", "give a file")
	case c.Session != "" && c.Prompt == "":
		return usageError("--image needs a prompt", program+" run --session ID --image FILE PROMPT")
	}
	return nil
}

// readPrompt determines the prompt, and whether to hold a conversation.
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
		return false, usageError("the prompt is missing", program+` run --model openai:NAME "what to do"`)
	}
	return talks, nil
}

// begin starts a session.
func (c *runCommand) begin(ctx context.Context, a *app, eng Engine, talks bool) error {
	start, err := c.newAgent(ctx, a, eng)
	if err != nil {
		return err
	}
	talk := &conversation{a: a, eng: eng}
	if talks {
		talk.lines = a.inputReader(ctx)
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
	return c.converse(ctx, a, talk, s)
}

// checkAgentFlags refuses flags that the agent already decides.
func (c *runCommand) checkAgentFlags() error {
	switch {
	case c.Agent == "":
		return nil
	case c.Session != "":
		return usageError("--agent works only for a new session",
			"remove --agent, or start a new session without --session and --last")
	case c.Instructions != "" || len(c.Capability) > 0 || c.SoftBudget != 0 || c.AllowShell || c.AwaitConnect:
		return usageError("--instructions, --capability, --soft-budget, --allow-shell and --await-connections cannot be used with --agent, which defines them", "change the agent with "+program+" agent apply, or remove --agent")
	}
	return nil
}

// newAgent checks the model and the workspace, and returns the function that starts the session.
func (c *runCommand) newAgent(ctx context.Context, a *app,
	eng Engine) (func(ctx context.Context, title string, labels perdure.Labels) (engine.Session, error), error) {
	if c.Agent == "" {
		agent, err := c.agent(ctx, a, eng)
		return func(ctx context.Context, title string, labels perdure.Labels) (engine.Session, error) {
			agent.Title, agent.Labels = title, labels
			return eng.Sessions().Create(ctx, agent)
		}, err
	}
	id, err := a.agent(ctx, eng, c.Agent)
	if err != nil {
		return nil, err
	}
	is, err := eng.Agents().Effective(ctx, id)
	if err != nil {
		return nil, err
	}
	order := engine.AgentSessionRequest{Agent: id}
	asked := is.Agent.Model
	if c.Model != "" {
		asked = c.modelName()
	}
	if asked == "" {
		return nil, usageError("the agent "+c.Agent+" has no model, --model is not given, and there is no default model",
			program+" run --agent "+quote(c.Agent)+` --model openai:NAME "what to do"`+"\n"+
				program+" model default "+a.storeFlags()+"NAME  sets the default model")
	}
	name, err := a.checkModel(ctx, eng, asked)
	if err != nil {
		return nil, c.checkModelFlag(err)
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
		return eng.Sessions().CreateFromAgent(ctx, order)
	}, err
}

// agent returns the agent of a new session. Its permissions are fixed from then on.
func (c *runCommand) agent(ctx context.Context, a *app, eng Engine) (perdure.Agent, error) {
	agent := perdure.Agent{Instructions: defaultInstructions, Metadata: map[string]string{}}
	var err error
	if agent.Model, err = c.newModel(ctx, a, eng); err != nil {
		return agent, err
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
	agent.Capabilities, agent.ClientConnections = c.Capability, c.AwaitConnect
	if c.AllowShell {
		a.message("commands run in %s", a.oneLine(agent.Metadata[WorkspaceKey], 300))
		agent.Capabilities = append(slices.Clone(c.Capability), ShellCapability)
	}
	return agent, nil
}

// newModel returns the model of a new session: the one of --model, or else the default model.
func (c *runCommand) newModel(ctx context.Context, a *app, eng Engine) (string, error) {
	asked := c.modelName()
	if c.Model == "" {
		found, err := eng.Providers().DefaultModel(ctx)
		switch {
		case errors.Is(err, perdure.NotFound), err == nil && found.Name == "": // an older server has none
			return "", usageError("a session needs a model, --model is not given, and there is no default model",
				program+` run --model openai:NAME "what to do"`+"\n"+
					program+" model default "+a.storeFlags()+"NAME  sets the default model")
		case err != nil:
			return "", err
		}
		asked = found.Name
	}
	name, err := a.checkModel(ctx, eng, asked)
	if err != nil {
		return "", c.checkModelFlag(err)
	}
	return name, nil
}

// modelName returns the name of the model together with its server.
func (c *runCommand) modelName() string {
	if c.BaseURL == "" {
		return c.Model
	}
	return c.Model + "@" + c.BaseURL
}

// workspace returns the folder for the session's files; empty: they are in the data directory.
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
		return "", usageError("the workspace "+dir+" does not exist", "create it: mkdir -p "+quote(dir))
	case err != nil:
		return "", usageError("the workspace cannot be used: "+err.Error(), "give a folder with --workspace")
	case !found.IsDir():
		return "", usageError("the workspace "+dir+" is not a folder", "give a folder with --workspace")
	}
	return dir, nil
}

// resume continues an existing session, with or without a new message.
func (c *runCommand) resume(ctx context.Context, a *app, eng Engine, talks bool) error {
	s, err := a.session(ctx, eng, c.Session)
	if err != nil {
		return err
	}
	fold, err := foldSession(ctx, eng, s.ID)
	if err != nil {
		return err
	}
	if err := c.checkUnchanged(fold.Agent); err != nil {
		return err
	}
	if !c.Bg && (c.Prompt != "" || talks || !fold.AtRest()) {
		if err := c.useModel(ctx, a, eng, s.ID, fold.Agent.Model); err != nil {
			return err
		}
	}
	talk := &conversation{a: a, eng: eng}
	if talks && fold.AtRest() {
		talk.lines = a.inputReader(ctx)
	}
	return c.converse(ctx, a, talk, s)
}

// checkUnchanged refuses flags that contradict what the session was started with.
func (c *runCommand) checkUnchanged(agent perdure.Agent) error {
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
	return usageError("this session was started with a different "+flag,
		"an agent is fixed when its session starts: remove "+flag+", or start a new session")
}

// useModel checks the session's own model, or switches to the one of --model.
func (c *runCommand) useModel(ctx context.Context, a *app, eng Engine, id perdure.SessionID, own string) error {
	if c.Model == "" && own == "" { // the default model at the time of each call
		_, err := c.newModel(ctx, a, eng)
		return err
	}
	if c.Model == "" {
		_, err := a.checkModel(ctx, eng, own)
		if f := (*userError)(nil); err == nil || errors.As(err, &f) && f.hint != "" { // a missing key
			return err
		}
		return &userError{err: err, code: exitCode(err),
			message: "the model of this session cannot be used: " + err.Error(),
			hint:    "choose another one with --model"}
	}
	name, err := a.checkModel(ctx, eng, c.modelName())
	if err != nil {
		return c.checkModelFlag(err)
	}
	eng.UseModel(id, name)
	return nil
}

// checkBaseURL refuses a --base-url that is not a URL: it would be read as part of the model name.
func (c *runCommand) checkBaseURL() error {
	if c.BaseURL == "" || strings.HasPrefix(c.BaseURL, "http://") || strings.HasPrefix(c.BaseURL, "https://") {
		return nil
	}
	return usageError("--base-url "+c.BaseURL+" is not an http or https URL",
		"for instance https://example.com/v1, or http://127.0.0.1:8080/v1 on this machine")
}

// checkModel calls CheckModel of an engine. It returns exitDenied when the model cannot be called
// because the key of its provider is missing.
func (a *app) checkModel(ctx context.Context, eng Engine, name string) (string, error) {
	found, err := eng.CheckModel(name)
	if !errors.Is(err, perdure.Invalid) {
		return found, err
	}
	all, unread := eng.Providers().List(ctx)
	if unread != nil {
		return "", err // it is still certain that the model cannot be called
	}
	for _, p := range all {
		if variable, _, _ := strings.Cut(p.Missing, " "); variable != "" &&
			strings.Contains(err.Error(), variable+" is not set") {
			what, todo, _ := strings.Cut(err.Error(), "; ")
			return "", &userError{err: err, code: exitDenied, message: what, hint: todo}
		}
	}
	return "", err
}

// checkModelFlag adds advice to the error of a model that cannot be called.
func (c *runCommand) checkModelFlag(err error) error {
	if f := (*userError)(nil); errors.As(err, &f) && f.hint != "" {
		return err
	}
	page := "docs/how-to/use-your-model.md explains models, servers and keys"
	if strings.HasPrefix(c.Model, "scripted:") {
		page = "--model scripted:FILE needs a script; docs/reference/scripted-model.md explains how to write one"
	}
	return &userError{err: err, code: exitCode(err), message: err.Error(), hint: page}
}

// converse sends the prompt, if there is one, and shows what happens.
func (c *runCommand) converse(ctx context.Context, a *app, talk *conversation, s engine.Session) error {
	var err error
	if talk.metadata, err = metadataOf(c.Metadata); err != nil {
		return err
	}
	if talk.stream, err = newStream(ctx, talk.eng, s.ID); err != nil {
		return err
	}
	if a.flags.NoInput {
		talk.stream.unattendedFlags = a.storeFlags() + "--session " + string(s.ID)
	}
	show := newProgressPrinter(a, talk.stream.fold)
	talk.stream.show, show.endsWithTurn = show, talk.lines == nil
	switch {
	case c.Output != "text":
		talk.stream.show = journal{a}
	case a.Terminal.Stdin && a.Terminal.Stderr && !a.flags.NoInput && !c.Bg:
		show.openQuestions = talk.startQuestions(ctx)
	}
	if s.LastSeq == 1 { // a new session: its first event is shown, too
		talk.stream.fold = perdure.NewSession(s.ID)
	}
	unfinished, waited := !talk.stream.isIdle(), talk.stream.fold.Clone()
	if c.Prompt != "" {
		images, err := imageParts(ctx, talk.eng, s.ID, c.attached)
		if err != nil {
			return err
		}
		if err := talk.send(ctx, c.Prompt, images...); err != nil {
			return err
		}
	}
	if c.Bg {
		c.printNext(a, s.ID)
		talk.explainHold(ctx)
		return nil
	}
	if err := c.checkConflicts(ctx, a, talk.eng.Sessions(), s.ID); err != nil {
		return err
	}
	defer lifetime{a}.onCtrlC(func() bool { return talk.interrupt(ctx) })()
	a.message("session %s", a.colors.stderr.mark(bold, string(s.ID)))
	if c.Output == "text" {
		show.printHold(waited)
	}
	switch {
	case unfinished:
		a.message("continuing where it stopped%s", openTasksNote(talk.stream.open()))
	case talk.lines != nil:
		return talk.run(ctx)
	case c.Prompt == "":
		if err := talk.holdError(ctx); err != nil {
			return err
		}
		a.message("the session is idle: there is nothing left to do")
		return nil
	}
	return talk.singleTurn(ctx)
}

// checkConflicts reports work of other sessions, which an engine continues, too.
func (c *runCommand) checkConflicts(ctx context.Context, a *app, eng engine.Sessions, id perdure.SessionID) error {
	all, err := eng.List(ctx, 0)
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
		a.message("also continuing %s", count(left, "other session"))
	}
	return nil
}

func openTasksNote(tasks int) string {
	if tasks == 0 {
		return ""
	}
	return ", with " + count(tasks, "open task")
}

// printNext prints the id, and what to do next.
func (c *runCommand) printNext(a *app, id perdure.SessionID) {
	fmt.Fprintln(a.out, id)
	place := a.storeFlags()
	a.message("the message to %s is stored; next:", id)
	a.message("  %s run %s--session %s", program, place, id)
	a.message("  %s session show %s%s", program, place, id)
	a.message("  %s event list %s%s", program, place, id)
	a.message("  %s task list %s--session %s", program, place, id)
}
