//! Points in the order of launches.

use crate::failure::Failure;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::time::Instant;
use torchtpu_tensor::Result;

/// A point in the order of launches. It is reached when all programs that were launched before have ended.
///
/// Programs of a device end in the order of their launches, if they need each other's results. XLA:CPU may run other
/// programs at the same time, so the point waits for all running programs, not only for the last.
pub struct Event {
    launches: Vec<Arc<torchtpu_pjrt::Event>>,
    /// Only of events with timing.
    end: Option<Arc<End>>,
}

/// The end of the last of several programs.
struct End {
    state: Mutex<EndState>,
    changed: Condvar,
}

struct EndState {
    /// Number of programs that have not ended.
    open: usize,
    /// The end of the last program so far, at first the time of recording.
    at: Instant,
}

impl Event {
    /// Make the event of the end of `launches`. With `timed`, it also has the time of the end.
    ///
    /// # Errors
    /// With `timed`, if the plugin does not report ends.
    pub(crate) fn new(launches: Vec<Arc<torchtpu_pjrt::Event>>, timed: bool) -> Result<Event> {
        let state = EndState { open: launches.len(), at: Instant::now() };
        let end = timed.then(|| Arc::new(End { state: Mutex::new(state), changed: Condvar::new() }));
        if let Some(end) = &end {
            for launch in &launches {
                let end = end.clone();
                launch
                    .on_ready(move || {
                        let mut state = end.state.lock();
                        state.open -= 1;
                        state.at = Instant::now();
                        end.changed.notify_all();
                    })
                    .map_err(|e| Failure::device("timing device tpu", &e).error())?;
            }
        }
        Ok(Event { launches, end })
    }

    /// Return whether the point is reached.
    pub fn is_ready(&self) -> bool {
        self.launches.iter().all(|l| l.is_ready().unwrap_or(true))
    }

    /// Wait until the point is reached.
    ///
    /// # Errors
    /// The error of a program that failed. Its values have the error too.
    pub fn wait(&self) -> Result<()> {
        let mut result = Ok(());
        for launch in &self.launches {
            let failed = |e: torchtpu_pjrt::Error| Failure::device("executing on device tpu", &e).error();
            let ended = crate::engine().await_launch(launch).and_then(|()| launch.await_ready().map_err(failed));
            result = result.and(ended);
        }
        if let Some(end) = &self.end {
            // The plugin reports the end on a thread of its own. A program that is launched after this ends later.
            end.wait();
        }
        result
    }

    /// Wait for both points and return the milliseconds from this one to `later`.
    ///
    /// The number is negative if `later` was reached first. It is `None` unless both points are timed.
    pub fn milliseconds_until(&self, later: &Event) -> Option<f64> {
        let (start, end) = (self.end.as_ref()?.wait(), later.end.as_ref()?.wait());
        let span = |a: Instant, b: Instant| b.saturating_duration_since(a).as_secs_f64();
        Some((span(start, end) - span(end, start)) * 1e3)
    }
}

impl End {
    fn wait(&self) -> Instant {
        let mut state = self.state.lock();
        self.changed.wait_while(&mut state, |s| s.open > 0);
        state.at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use torchtpu_pjrt::{CallFrame, Client, CompileOptions, CustomCall, ElementType, OptionValue, Plugin};

    /// Programs that call this end when the test opens it.
    struct Gate;
    static IS_OPEN: Mutex<bool> = Mutex::new(false);
    static OPENED: Condvar = Condvar::new();

    impl CustomCall for Gate {
        const TARGET: &'static str = "test.event_gate";
        fn call(mut frame: CallFrame<'_>) -> std::result::Result<(), String> {
            OPENED.wait_while(&mut IS_OPEN.lock(), |is_open| !*is_open);
            frame.results[0].bytes.copy_from_slice(frame.operands[0].bytes);
            Ok(())
        }
    }

    #[test]
    fn a_point_is_reached_when_the_last_program_before_it_has_ended() {
        let plugin = Plugin::find(Some("cpu")).expect("XLA:CPU, which the tests need");
        let client = Client::create(&plugin, &[("cpu_device_count", OptionValue::Int64(1))]).unwrap();
        client.register_custom_call::<Gate>().unwrap();
        // XLA:CPU runs a program of few operations on the thread that launches it, so both programs multiply matrices.
        let program = |op: &str| {
            let text = format!(
                "func.func @main(%a: tensor<64x64xf32>) -> tensor<64x64xf32> {{
                    %0 = {op} : (tensor<64x64xf32>) -> tensor<64x64xf32>
                    %1 = stablehlo.dot_general %0, %a, contracting_dims = [1] x [0]
                        : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
                    return %1 : tensor<64x64xf32>
                }}"
            );
            client.compile(&text, &CompileOptions::default()).unwrap()
        };
        let quick = program("\"stablehlo.negate\"(%a)");
        let layout = "dense<[1, 0]> : tensor<2xindex>";
        let gated = program(&format!(
            "\"stablehlo.custom_call\"(%a) {{call_target_name = \"test.event_gate\", api_version = 4 : i32,
                backend_config = {{kernel = \"\", numbers = array<i64>}}, operand_layouts = [{layout}],
                result_layouts = [{layout}]}}"
        ));
        let x = client.buffer_from_host(&[0; 4 * 64 * 64], ElementType::F32, &[64, 64]).unwrap();
        let launch = |program: &torchtpu_pjrt::Executable| {
            let result = program.execute(&[&x], &[]).unwrap().remove(0);
            Arc::new(result.ready_event().unwrap())
        };
        let first = launch(&quick);
        let before = Event::new(vec![first.clone()], true).unwrap();
        before.wait().unwrap();
        let held = launch(&gated);
        // One ended program is not enough.
        let after = Event::new(vec![first, held.clone()], true).unwrap();
        let untimed = Event::new(vec![held], false).unwrap();
        assert!(before.is_ready() && !after.is_ready() && !untimed.is_ready());
        let opened = Instant::now();
        *IS_OPEN.lock() = true;
        OPENED.notify_all();
        after.wait().unwrap();
        assert!(after.is_ready() && untimed.is_ready());
        let span = before.milliseconds_until(&after).unwrap();
        assert!(span > 0.0 && after.milliseconds_until(&before).unwrap() == -span);
        assert!(after.end.as_ref().unwrap().wait() >= opened, "the end is that of the program, not of the recording");
        assert!(untimed.milliseconds_until(&after).is_none() && after.milliseconds_until(&untimed).is_none());
        let nothing = Event::new(Vec::new(), true).unwrap();
        assert!(nothing.is_ready() && after.milliseconds_until(&nothing).unwrap() >= 0.0);
    }
}
