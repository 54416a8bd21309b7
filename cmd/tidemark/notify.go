package main

import (
	"net"
	"os"
	"strconv"
	"time"
)

// notifier tells systemd how things are. Without systemd it says nothing.
type notifier struct {
	socket   string
	watchdog time.Duration // that systemd waits for a sign; 0: it does not
	last     time.Time     // when a sign was given
}

// newNotifier reads what systemd left in the environment.
func newNotifier(getenv func(string) string) *notifier {
	n := &notifier{socket: getenv("NOTIFY_SOCKET")}
	usec, err := strconv.ParseInt(getenv("WATCHDOG_USEC"), 10, 64)
	if pid := getenv("WATCHDOG_PID"); err == nil && usec > 0 && (pid == "" || pid == strconv.Itoa(os.Getpid())) {
		n.watchdog = time.Duration(usec) * time.Microsecond
	}
	return n
}

// ready says that the fleet is up.
func (n *notifier) ready() { n.tell("READY=1") }

// stopping says that the fleet is about to end.
func (n *notifier) stopping() { n.tell("STOPPING=1") }

// alive is to be called in each round of the daemon: when that hangs, systemd
// misses the sign and starts the fleet anew.
func (n *notifier) alive(now time.Time) {
	if n.watchdog > 0 && (now.Sub(n.last) >= n.watchdog/4 || now.Before(n.last)) {
		n.last = now
		n.tell("WATCHDOG=1")
	}
}

// tell sends a line. What cannot be told is not worth ending a fleet for.
func (n *notifier) tell(state string) {
	if n.socket == "" {
		return
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: n.socket, Net: "unixgram"})
	if err != nil {
		return
	}
	defer c.Close()
	c.Write([]byte(state))
}
