//! What perftest prints: the table of its text. Its `--out_json` is no JSON in perftest 4.5 (Debian 12: no quotes around
//! names and words, a comma before each closing brace), and older ones have none; the table has been the same for ten years.
//!
//! ```text
//!  #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
//!  65536      912              0.00               0.24               0.000456
//! ```

/// Columns of the table, of which the first two are counts.
const MESSAGE_BYTES: usize = 0;
const MESSAGES: usize = 1;
const AVERAGE: usize = 3;
const MESSAGE_RATE: usize = 4;
/// Half of the last digit that is printed: of the average, Gb/s, and of the messages, millions a second.
const AVERAGE_ROUNDING: f64 = 0.005;
const MESSAGE_RATE_ROUNDING: f64 = 0.5e-6;
/// By so much two columns of one figure may differ beyond their rounding.
const TOLERANCE: f64 = 0.01;
/// No link carries more; what says so is not read right.
const MOST_GIGABITS: f64 = 1e6;

/// What one end counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PerftestFigure {
    /// Of one message.
    pub message_bytes: u64,
    /// Messages whose end was seen while it counted.
    pub messages: u64,
    /// Payload, bytes per second; the sum of both directions where both were asked for.
    pub bytes_per_second: f64,
    /// Payload of a full packet (RDMA's path MTU); none: not printed.
    pub packet_bytes: Option<u32>,
}

/// Why it is no figure: a phrase.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OutputError {
    #[error("printed no table of results")]
    NoTable,
    #[error("printed a table with other columns than linerate knows")]
    OtherColumns,
    #[error("moved no message within its time")]
    NoMessages,
    #[error("printed a rate that does not agree with its messages")]
    Contradiction,
}

impl PerftestFigure {
    /// Reads the whole output of one end.
    ///
    /// # Errors
    /// There is no table, or one that cannot be true.
    pub fn parse(text: &str) -> Result<PerftestFigure, OutputError> {
        let mut lines = text.lines().map(str::trim).skip_while(|line| !line.starts_with("#bytes"));
        let header = lines.next().ok_or(OutputError::NoTable)?;
        if !header.contains("BW average[Gb/sec]") || !header.contains("MsgRate[Mpps]") {
            return Err(OutputError::OtherColumns);
        }
        let line = lines.next().ok_or(OutputError::NoTable)?;
        let cells: Vec<&str> = line.split_whitespace().collect();
        let count = |column: usize| cells.get(column).and_then(|cell| cell.parse::<u64>().ok());
        let number = |column: usize, most: f64| {
            let number = cells.get(column).and_then(|cell| cell.parse::<f64>().ok());
            number.filter(|number| (0.0..=most).contains(number))
        };
        let (Some(message_bytes), Some(messages), Some(average), Some(rate)) = (
            count(MESSAGE_BYTES),
            count(MESSAGES),
            number(AVERAGE, MOST_GIGABITS),
            number(MESSAGE_RATE, MOST_GIGABITS),
        ) else {
            return Err(OutputError::NoTable);
        };
        if messages == 0 || message_bytes == 0 {
            return Err(OutputError::NoMessages);
        }
        let bytes_per_second =
            finer(average, rate, message_bytes as f64).ok_or(OutputError::Contradiction)?;
        Ok(PerftestFigure { message_bytes, messages, bytes_per_second, packet_bytes: packet_bytes(text) })
    }
}

/// Bytes per second by the column that is rounded less; none where the two do not agree, or where there is no rate.
fn finer(average: f64, message_rate: f64, message_bytes: f64) -> Option<f64> {
    let gigabits = message_bytes * 8.0 / 1e3;
    let (by_messages, rounding) = (message_rate * gigabits, MESSAGE_RATE_ROUNDING * gigabits);
    let allowed = AVERAGE_ROUNDING + rounding + TOLERANCE * average.max(by_messages);
    let finer = if rounding < AVERAGE_ROUNDING { by_messages } else { average };
    ((average - by_messages).abs() <= allowed && finer > 0.0).then_some(finer * 1e9 / 8.0)
}

/// ` Mtu             : 4096[B]`.
fn packet_bytes(text: &str) -> Option<u32> {
    let value = |line: &str| {
        line.trim().strip_prefix("Mtu")?.trim().strip_prefix(':')?.trim().strip_suffix("[B]")?.parse().ok()
    };
    text.lines().find_map(value).filter(|bytes| *bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// ib_write_bw 6.06 (perftest 4.5) over rxe in a guest, without its lines of addresses.
    const TEXT: &str = "
---------------------------------------------------------------------------------------
                    RDMA_Write BW Test
 Dual-port       : OFF\t\tDevice         : rxe0
 Number of qps   : 1\t\tTransport type : IB
 TX depth        : 128
 CQ Moderation   : 1
 Mtu             : 1024[B]
 Link type       : Ethernet
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      912              0.00               0.24   \t\t   0.000456
---------------------------------------------------------------------------------------
";

    fn with(row: &str) -> Result<PerftestFigure, OutputError> {
        PerftestFigure::parse(
            &TEXT.replace("65536      912              0.00               0.24   \t\t   0.000456", row),
        )
    }

    #[test]
    fn the_table_is_read_by_its_finer_column() {
        let figure = PerftestFigure::parse(TEXT).expect("a figure");
        assert_eq!((figure.message_bytes, figure.messages, figure.packet_bytes), (65536, 912, Some(1024)));
        assert!((figure.bytes_per_second - 456.0 * 65536.0).abs() < 1.0, "{figure:?}");
        // Large messages: their rate is rounded more than the average.
        let figure = with("16777216 120 0.00 96.55 0.000719").expect("a figure");
        assert!((figure.bytes_per_second - 96.55e9 / 8.0).abs() < 1.0, "{figure:?}");
        // Both ways at once it prints more digits.
        assert!(with("65536      64           0.000000            0.020746            0.000040").is_ok());
    }

    #[test]
    fn what_is_no_figure_is_refused() {
        let error = |text: &str| PerftestFigure::parse(text).expect_err("no figure");
        assert_eq!(error(""), OutputError::NoTable);
        assert_eq!(error("Couldn't connect to 192.0.2.1:18515"), OutputError::NoTable);
        assert_eq!(error(&TEXT.replace("Gb/sec", "MB/sec")), OutputError::OtherColumns);
        assert_eq!(error(TEXT.split_once(" 65536").expect("the row").0), OutputError::NoTable);
        assert_eq!(
            with("1048576    0                0.00               0.00   0.000000"),
            Err(OutputError::NoMessages)
        );
        assert_eq!(with("65536 912 0.00 24.00 0.000456"), Err(OutputError::Contradiction));
        assert_eq!(with("65536 912 0.00 0.00 0.000000"), Err(OutputError::Contradiction));
        for cell in ["nan", "inf", "-0.24", "1e30"] {
            assert_eq!(with(&format!("65536 912 0.00 {cell} 0.000456")), Err(OutputError::NoTable), "{cell}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_figure_or_none(text in "[ -~\\n]{0,400}", row in "[0-9a-z. \\-]{0,60}") {
            let _ = PerftestFigure::parse(&text);
            if let Ok(figure) = with(&row) {
                prop_assert!(figure.bytes_per_second.is_finite() && figure.bytes_per_second > 0.0);
                prop_assert!(figure.messages > 0 && figure.message_bytes > 0);
            }
        }

        #[test]
        fn a_printed_rate_is_read_back(rate in 1e6_f64..1e11, message in prop::sample::select(vec![4096_u64, 65536, 1 << 20, 8 << 20])) {
            let (gigabits, mpps) = (rate * 8.0 / 1e9, rate / message as f64 / 1e6);
            let read = with(&format!("{message} 1000 0.00 {gigabits:.2} {mpps:.6}"));
            let least = (0.01_f64 * 1e9 / 8.0).max(1e-6 * 1e6 * message as f64);
            if rate > 2.0 * least {
                let read = read.expect("a figure").bytes_per_second;
                prop_assert!((read - rate).abs() <= 0.01 * rate + 0.005e9 / 8.0 + 0.5 * message as f64, "{read} {rate}");
            }
        }
    }
}
