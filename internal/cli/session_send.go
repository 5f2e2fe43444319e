package cli

import (
	"context"

	"github.com/perdure/perdure"
)

type sessionSend struct {
	Session string   `arg:"" help:"Session: id, unique id prefix, title, or last."`
	Text    string   `arg:"" help:"Text of the message."`
	Image   []string `help:"Show an image with the message: a local file, which is stored with the session, or the id of one of its images. Repeatable." placeholder:"FILE|ID" sep:"none"`
	Wait    bool     `help:"Wait for the answer, like run."`
	DryRun  bool     `help:"Print what would be done, without doing it."`
	Output  string   `short:"o" help:"With --wait: output format: text, or json with one line per event." placeholder:"FORMAT" enum:"text,json,jsonl" default:"text"`
}

// Run sends a message.
func (c *sessionSend) Run(ctx context.Context, a *app) error {
	if err := perdure.Text(c.Text).CheckInput(); err != nil {
		return err
	}
	if c.DryRun {
		return a.read(ctx, func(eng Engine) error {
			s, err := a.session(ctx, eng, c.Session)
			if err == nil {
				a.message("would send %s to %s, which is %s: %s", count(len(c.Text), "byte"), s.ID, s.Status,
					a.oneLine(s.Title, cellChars))
			}
			return err
		})
	}
	run := &runCommand{Prompt: c.Text, Session: c.Session, Output: c.Output, Bg: !c.Wait, Image: c.Image}
	return run.Run(ctx, a)
}
