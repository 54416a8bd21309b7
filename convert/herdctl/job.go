package herdctl

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/tidemark-sessions/tidemark"
)

// jobForm is jobs/<id>.yaml.
func jobForm() form {
	return form{
		{"id", isNever, false},
		{"agent", isNever, false},
		{"schedule", isText, true},
		{"trigger_type", oneOf("manual", "schedule", "webhook", "chat", "discord", "slack", "web", "fork", "spawned"), false},
		{"status", isNever, false},
		{"exit_reason", isNever, true},
		{"session_id", isText, true},
		{"forked_from", isNever, true},
		{"started_at", isTime, false},
		{"finished_at", isTime, true},
		{"duration_seconds", isCount, true},
		{"prompt", isText, true},
		{"summary", isText, true},
		{"output_file", isText, true},
		{"usage", isUsage, true},
	}
}

// isUsage requires the schema of a job's tokens.
func isUsage(raw json.RawMessage) bool {
	u := sub(raw)
	if u == nil || !isObject(u["per_model"]) || !isNull(u["num_turns"]) && !isCount(u["num_turns"]) ||
		!isNull(u["total_cost_usd"]) && !isCount(u["total_cost_usd"]) {
		return false
	}
	for _, model := range sub(u["per_model"]) {
		for _, key := range []string{"input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"} {
			if !isCount(sub(model)[key]) {
				return false
			}
		}
	}
	return true
}

// readJob makes a job from its file. output is the name of its output file, if
// there is one: that is used, whatever path the job states.
func readJob(o object, output string) (tidemark.Job, error) {
	j := jobOf(o, output)
	switch {
	case tidemark.CheckID(j.ID) != nil:
		return j, tidemark.CheckID(j.ID)
	case tidemark.CheckID(j.Agent) != nil:
		return j, tidemark.Invalidf("agent: %w", tidemark.CheckID(j.Agent))
	case j.Status == "":
		return j, tidemark.Invalidf("status %.40q: is none of a job", text(o["status"]))
	case j.StartedAt.IsZero():
		return j, tidemark.Invalidf("started_at %.40q: is no time", text(o["started_at"]))
	}
	again, _ := jobObject(j)
	j.Extra = extra(kept(o, again))
	return j, nil
}

func jobOf(o object, output string) tidemark.Job {
	j := tidemark.Job{
		ID: text(o["id"]), Agent: text(o["agent"]), Schedule: text(o["schedule"]),
		Trigger: trigger(text(o["trigger_type"])), Status: known(text(o["status"]), statuses()), ExitReason: known(text(o["exit_reason"]), exits()),
		SessionID: text(o["session_id"]), ForkedFrom: text(o["forked_from"]),
		StartedAt: when(o["started_at"]), FinishedAt: when(o["finished_at"]),
		DurationSeconds: max(0, number(o["duration_seconds"])),
		Prompt:          text(o["prompt"]), Summary: text(o["summary"]),
	}
	if j.OutputFile = output; output == "" {
		j.OutputFile = baseName(text(o["output_file"]))
	}
	u := sub(o["usage"])
	j.Turns, j.CostUSD = count(u["num_turns"]), max(0, number(u["total_cost_usd"]))
	for model, tokens := range sub(u["per_model"]) {
		if j.Usage == nil {
			j.Usage = map[string]tidemark.Usage{}
		}
		t := sub(tokens)
		j.Usage[model] = tidemark.Usage{
			InputTokens: count(t["input_tokens"]), OutputTokens: count(t["output_tokens"]),
			CacheReadTokens: count(t["cache_read_input_tokens"]), CacheWriteTokens: count(t["cache_creation_input_tokens"]),
		}
	}
	return j
}

// trigger returns what started a job in Tidemark's words: all chat platforms are
// one word.
func trigger(s string) string {
	switch s {
	case "discord", "slack", "web":
		return tidemark.TriggerChat
	}
	if s = known(s, triggers()); s == "" {
		return tidemark.TriggerManual
	}
	return s
}

func triggers() []string {
	return []string{tidemark.TriggerManual, tidemark.TriggerSchedule, tidemark.TriggerWebhook, tidemark.TriggerChat, tidemark.TriggerFork, tidemark.TriggerSpawned}
}

func statuses() []string {
	return []string{tidemark.JobPending, tidemark.JobRunning, tidemark.JobCompleted, tidemark.JobFailed, tidemark.JobCancelled, tidemark.JobInterrupted}
}

// exits are the exit reasons on both of herdctl's pages.
func exits() []string {
	return []string{tidemark.ExitSuccess, tidemark.ExitError, tidemark.ExitTimeout, tidemark.ExitCancelled, tidemark.ExitMaxTurns,
		tidemark.ExitEndTurn, tidemark.ExitStopSequence, tidemark.ExitInterrupt}
}

// known returns s when it is one of the words, and otherwise "".
func known(s string, words []string) string {
	if slices.Contains(words, s) {
		return s
	}
	return ""
}

// jobObject returns a job as herdctl writes it, and what herdctl cannot
// represent.
func jobObject(j tidemark.Job) (o object, lost []string) {
	status, exit := j.Status, j.ExitReason
	switch exit {
	case tidemark.ExitEndTurn, tidemark.ExitStopSequence, tidemark.ExitMaxTokens:
		exit = tidemark.ExitSuccess
	case tidemark.ExitInterrupt:
		if exit = tidemark.ExitError; status == tidemark.JobCancelled {
			exit = tidemark.ExitCancelled
		}
	}
	// As they were imported: nothing here ended them.
	waits := status == tidemark.JobAbandoned && j.FinishedAt.IsZero()
	ran := status == tidemark.JobInterrupted && j.FinishedAt.IsZero() && exit == ""
	switch {
	case ran:
		status = tidemark.JobRunning
	case status == tidemark.JobInterrupted:
		status, exit = tidemark.JobFailed, tidemark.ExitError
	case waits:
		status = tidemark.JobPending
	case status == tidemark.JobAbandoned:
		status, exit = tidemark.JobCancelled, tidemark.ExitCancelled
	}
	if status != j.Status && !waits && !ran {
		lost = append(lost, "status "+j.Status+" is written as "+status+", exit reason "+exit)
	} else if exit != j.ExitReason {
		lost = append(lost, "exit reason "+j.ExitReason+" is written as "+exit)
	}
	o = object{
		"id": quoted(j.ID), "agent": quoted(j.Agent), "schedule": orNull(j.Schedule), "trigger_type": quoted(j.Trigger),
		"status": quoted(status), "exit_reason": orNull(exit), "session_id": orNull(j.SessionID), "forked_from": orNull(j.ForkedFrom),
		"started_at": timeOrNull(j.StartedAt), "finished_at": timeOrNull(j.FinishedAt), "duration_seconds": orNull(""),
		"prompt": orNull(j.Prompt), "summary": orNull(j.Summary), "output_file": orNull(j.OutputFile), "usage": usageObject(j),
	}
	if d := j.DurationSeconds; d > 0 || !j.FinishedAt.IsZero() {
		o["duration_seconds"] = numeral(min(max(0, d), maxNumber))
	}
	for _, u := range j.Usage {
		if u.CostUSD != 0 {
			lost = append(lost, "the cost of each model")
			break
		}
	}
	return o, lost
}

func usageObject(j tidemark.Job) json.RawMessage {
	if j.Usage == nil && j.Turns == 0 && j.CostUSD == 0 {
		return orNull("")
	}
	models := object{}
	for _, name := range slices.Sorted(maps.Keys(j.Usage)) {
		u := j.Usage[name]
		models[name] = form{{name: "input_tokens"}, {name: "output_tokens"}}.marshal(object{
			"input_tokens": numeral(max(0, u.InputTokens)), "output_tokens": numeral(max(0, u.OutputTokens)),
			"cache_creation_input_tokens": numeral(max(0, u.CacheWriteTokens)), "cache_read_input_tokens": numeral(max(0, u.CacheReadTokens)),
		})
	}
	o := object{"per_model": form(nil).marshal(models)}
	if j.Turns > 0 {
		o["num_turns"] = numeral(j.Turns)
	}
	if j.CostUSD > 0 {
		o["total_cost_usd"] = numeral(j.CostUSD)
	}
	return form{{name: "per_model"}, {name: "num_turns"}}.marshal(o)
}
