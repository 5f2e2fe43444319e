package sim

import (
	"encoding/json"
	"regexp"
	"strings"

	"github.com/perdure/perdure"
)

// callOrder is one call that a message requests: tool#number, the task of another agent in
// brackets, and how the call ends.
//
//	charge#4!fail   agent#5[note#6+charge#7/bg_note#8]   word#9[note#10]
//
// Within brackets + stands for a space, and / separates rounds like " | " outside.
type callOrder struct {
	text   string // the complete order; it names the effect
	name   string
	number string // unique in the program
	inner  string // the task of another agent
	how    string
}

// parseOrder parses one word of a message. ok is false if it is not an order.
func parseOrder(word string) (o callOrder, ok bool) {
	o.text = word
	o.name, word, ok = strings.Cut(word, "#")
	if open, last := strings.IndexByte(word, '['), strings.LastIndexByte(word, ']'); open >= 0 && last > open {
		o.inner = unpacked(word[open+1 : last])
		word = word[:open] + word[last+1:]
	}
	o.number, o.how, _ = strings.Cut(word, "!")
	return o, ok
}

// unpacked returns a message as it was before packed. Nested brackets stay packed.
func unpacked(inner string) string {
	var b strings.Builder
	depth := 0
	for _, c := range inner {
		switch {
		case c == '[':
			depth++
		case c == ']':
			depth--
		case depth == 0 && c == '+':
			c = ' '
		case depth == 0 && c == '/':
			b.WriteString(" |")
			c = ' '
		}
		b.WriteRune(c)
	}
	return b.String()
}

// packed encodes a message for brackets.
func packed(message string) string {
	return "[" + strings.ReplaceAll(strings.ReplaceAll(message, " | ", "/"), " ", "+") + "]"
}

var taskID = regexp.MustCompile(`task_[0-9a-f]{32}`)

// calls returns the calls that the model makes next in a conversation.
func calls(messages []perdure.Message) []perdure.ToolCall {
	round, said, known := 0, "", []string{}
	for _, m := range messages {
		switch {
		case m.Role == perdure.RoleUser:
			round, said = 0, m.Text()
		case len(m.Calls()) > 0:
			round++
		}
		for _, part := range m.Parts {
			if part.Result != nil {
				known = append(known, taskID.FindAllString(string(part.Result.Result), 1)...)
			}
		}
	}
	rounds := strings.Split(said, " | ")
	if said == "" || round >= len(rounds) {
		return nil
	}
	var list []perdure.ToolCall
	for _, word := range strings.Fields(rounds[round]) {
		if o, ok := parseOrder(word); ok {
			list = append(list, o.call(known))
		}
	}
	return list
}

// The runtime's tools that orders abbreviate.
const (
	spawnAgent = "spawn_subagent"
	checkTask  = "check_background_tool"
)

// call returns the call of an order. Its id derives from the order, so it is the same in every
// attempt. known are the ids of the tasks that the model has seen.
func (o callOrder) call(known []string) perdure.ToolCall {
	c := perdure.ToolCall{ID: perdure.CallID("c" + o.number), Name: o.name}
	var args any = words{Text: o.text}
	switch name := o.name; {
	case strings.HasSuffix(name, "agent"):
		c.Name, args = spawnAgent, o.agent()
	case strings.HasPrefix(name, "bg_"):
		c.Name, args = "spawn_background", map[string]any{
			"tool": name, "args": args, "signal_on_completion": !strings.HasSuffix(o.number, "7"),
		}
	case name == "tell":
		c.Name = "message_parent"
	case name == "word" && len(known) > 0:
		c.Name, args = "message_task", map[string]any{"task_id": known[len(known)-1], "text": o.inner}
	case name == "check" && len(known) > 0:
		c.Name, args = checkTask, map[string]any{
			"background_id": known[len(o.number)%len(known)], "wait_seconds": len(o.number) % 2,
			"cancel": strings.HasSuffix(o.number, "3"),
		}
	case name == "check" || name == "list" || name == "word":
		c.Name, args = checkTask, map[string]any{"list": true}
	}
	c.Arguments, _ = json.Marshal(args) // plain values
	return c
}

// agent returns the arguments for a subagent. The subagent obeys orders too, and never answers with
// JSON.
func (o callOrder) agent() map[string]any {
	args := map[string]any{"name": o.name + " " + o.number, "task": o.inner, "background": o.name == "bg_agent"}
	if o.how == "schema" {
		args["result_schema"] = map[string]any{"type": "object"}
	}
	return args
}
