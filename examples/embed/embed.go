// Embed is a program that embeds Perdure. Kill it at any moment and start it again: it continues.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store/sqlite"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/subagent"
	"github.com/perdure/perdure/webhook"
)

type buildIn struct {
	Repo string `json:"repo" jsonschema:"The repository to build."`
}

type mailIn struct {
	To   string `json:"to"`
	Text string `json:"text"`
}

// build can run again after a crash: building twice has the effect of building once.
func build(dir string) tool.Tool {
	return tool.Func("build", "Builds a repository.", perdure.Idempotent, func(_ context.Context, in buildIn) (string, error) {
		return in.Repo + ":1", os.WriteFile(filepath.Join(dir, "image"), []byte(in.Repo), 0o600)
	})
}

// sendMail must not happen twice, and a person has to approve it. A line in a file is the mail.
func sendMail(dir string) tool.Tool {
	spec := tool.Spec{Name: "send_mail", Description: "Sends a mail.", Class: perdure.AtMostOnce, Policy: tool.PolicyRequiresApproval}
	return tool.New(spec, func(_ context.Context, in mailIn, env tool.Env) (string, error) {
		file, err := os.OpenFile(filepath.Join(dir, "mails"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return "", err
		}
		_, err = fmt.Fprintln(file, env.Call.Key, in.To)
		return "sent", errors.Join(err, file.Close())
	})
}

// script takes the place of a model, so that the program needs no key.
const script = `
rules:
  - when: {user_contains: read the changes}
    delay: 100ms
    text: One feature, two fixes.
  - when: {user_contains: Release, not_called: build}
    delay: 100ms
    calls: [{name: build, args: {repo: perdure}}]
  - when: {user_contains: Release, not_called: spawn_subagent}
    calls: [{name: spawn_subagent, args: {name: reader, task: read the changes}}]
  - when: {user_contains: Release, not_called: send_mail}
    calls: [{name: send_mail, args: {to: team@example.com, text: Version 1 is out.}}]
steps: [{text: Version 1 is released., delay: 100ms, repeat: true}]
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, "data"); err != nil {
		log.Fatal(err)
	}
}

// run opens what the engine needs, runs it, and talks with the agent until ctx ends.
func run(ctx context.Context, dir string) error {
	st, err := sqlite.Open(ctx, sqlite.Config{Dir: dir})
	if err != nil {
		return err
	}
	defer st.Close()
	data, err := local.OpenDataDir(ctx, local.DataDirConfig{Dir: dir, Store: st}) // with the key for secrets
	if err != nil {
		return err
	}
	defer data.Close()
	out, err := local.NewEgress(local.EgressConfig{Webhooks: []string{"127.0.0.1"}}) // a receiver on this machine
	if err != nil {
		return err
	}
	model, err := scripted.Parse("release", []byte(script))
	if err != nil {
		return err
	}
	tools := tool.NewRegistry(build(dir), sendMail(dir))
	tools.RegisterOptional(subagent.Tools()...)
	eng, err := local.Open(ctx, local.Config{
		Store: st, Model: model, Tools: tools, Storage: data.Storage, Webhooks: local.Webhooks{Egress: out},
		Limits: local.Limits{MaxExecutions: -1, NoProgress: -1}, // it is killed on purpose; by default 3 of each
	})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1) // the result of Run
	go func() { ended <- eng.Run(ctx) }()
	err = talk(ctx, eng, dir)
	stop()
	return errors.Join(err, <-ended)
}

// talk is the same at every start: each key makes it the same object.
func talk(ctx context.Context, eng *local.Engine, dir string) error {
	s, err := eng.Ensure(ctx, "releases", perdure.Agent{Instructions: "You ship releases.", Capabilities: []string{tool.AgentsCapability}})
	if err != nil {
		return err
	}
	if _, err := eng.Schedules().Create(ctx, perdure.Schedule{
		ID: perdure.IDForKey[perdure.ScheduleID]("every morning"), Session: s.ID, Cron: "0 9 * * 1-5", Zone: "Europe/Zurich",
		Action: perdure.ScheduleAction{Message: "What is new since yesterday?"},
	}); err != nil {
		return err
	}
	if url := os.Getenv("RECEIVER"); url != "" {
		hook, err := eng.Webhooks().Create(ctx, webhook.Webhook{
			ID: perdure.IDForKey[perdure.WebhookID]("releases"), URL: url, Types: []string{"turn.completed"}})
		if err == nil && hook.Secret != "" { // for the receiver; it is returned only once
			err = os.WriteFile(filepath.Join(dir, "receiver.secret"), []byte(hook.Secret), 0o600)
		}
		if err != nil {
			return err
		}
	}
	answer, err := engine.Conversation{Engine: eng, Session: s.ID, OnApproval: decide}.Ask(ctx, perdure.Text("Release version 1.").WithKey("version 1"))
	if err != nil {
		return err
	}
	fmt.Println(answer.Text)
	<-ctx.Done() // until Ctrl-C the schedule fires and the webhook is called
	return nil
}

// decide asks the person at the terminal. No answer is a no.
func decide(_ context.Context, a perdure.Approval) (perdure.Verdict, error) {
	fmt.Printf("May %s run with %s? [y/N] ", a.Tool, a.Args)
	var answer string
	_, _ = fmt.Scanln(&answer)
	return perdure.Verdict{Approve: answer == "y", By: "owner"}, nil
}
